"""A server of the Model Context Protocol: `hintcell mcp` as tools of an agent (extra: `mcp`).

`backend` holds the searches of one principal, `followed` the policy that they are under, `pages` what an answer looks
like and how many hits fit into it, `tools` what an agent sees, `calls` how far a call is, `lines` requests that the SDK
cannot read, and `serve` the transports.
"""

from hintcell.integrations.mcp.backend import Backend, Settings
from hintcell.integrations.mcp.calls import progress
from hintcell.integrations.mcp.followed import FollowedPolicy
from hintcell.integrations.mcp.serve import listen, serve
from hintcell.integrations.mcp.tools import SearchServer

__all__ = ["Backend", "FollowedPolicy", "SearchServer", "Settings", "listen", "progress", "serve"]
