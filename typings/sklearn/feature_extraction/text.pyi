from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

class _SparseRows(Protocol):
    def tocsc(self) -> _SparseColumns: ...

class _SparseColumns(Protocol):
    # The matrix's index type is 32 or 64 bits wide, as its size demands.
    @property
    def indptr(self) -> npt.NDArray[np.signedinteger]: ...
    @property
    def indices(self) -> npt.NDArray[np.signedinteger]: ...
    @property
    def data(self) -> npt.NDArray[np.float64]: ...

class CountVectorizer:
    analyzer: Callable[[str], Iterable[bytes]]
    def __init__(
        self,
        *,
        analyzer: Callable[[str], Iterable[bytes]],
        vocabulary: Mapping[bytes, int],
        dtype: type[np.float64],
    ) -> None: ...
    def build_analyzer(self) -> Callable[[str], Iterable[bytes]]: ...
    def transform(self, raw_documents: Iterable[str]) -> _SparseRows: ...
