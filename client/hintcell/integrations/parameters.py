"""Types of the tools' parameters, for frameworks that make schemas of annotations with Pydantic."""

from typing import Annotated, Final

from pydantic import Field

from hintcell.integrations import wording

Query = Annotated[str, Field(description=wording.QUERY)]
Globs = Annotated[list[str], Field(description=wording.GLOBS)]
Limit = Annotated[int, Field(description=wording.LIMIT, ge=1, le=wording.MAX_LIMIT)]
SessionHandle = Annotated[str, Field(description=wording.SESSION)]
Cursor = Annotated[str, Field(description=wording.CURSOR)]

# The default of globs; nobody changes it.
ALL_FILES: Final[list[str]] = []
