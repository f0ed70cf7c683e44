"""Where agents are: one module for each framework, each an extra of its own (`pip install 'hintcell[NAME]'`).

Importing this package loads none of them.
"""
