"""The manager of hintcell: admits sessions, tracks their memory, and ends them when permissions change.

Importing this package loads nothing. What other packages may use is `hintcell_manager.protocol`.
"""
