"""Catalogs: the functions found in a folder or in installed packages, ready to be the documents of a request.

Importing this package loads no scientific library, and building a catalog imports none of the code it reads,
writes nothing and logs nothing.
"""

from hintcell.catalog.build import Progress, build_from_directory, build_from_packages
from hintcell.catalog.model import Catalog, CatalogError, Reason

__all__ = ["Catalog", "CatalogError", "Progress", "Reason", "build_from_directory", "build_from_packages"]
