"""Catalogs: the functions and texts found in a folder or in installed packages, ready to be a request's documents.

Importing this package loads no scientific library and no grammar, and building a catalog imports none of the code it
reads, writes nothing and logs nothing.
"""

from hintcell.catalog.build import Progress, build_from_directory, build_from_packages
from hintcell.catalog.cache import Cache
from hintcell.catalog.model import Catalog, CatalogError, Location, Narrower, Reason, Tell, TooMuchError
from hintcell.catalog.walk import MayRead

__all__ = [
    "Cache",
    "Catalog",
    "CatalogError",
    "Location",
    "MayRead",
    "Narrower",
    "Progress",
    "Reason",
    "Tell",
    "TooMuchError",
    "build_from_directory",
    "build_from_packages",
]
