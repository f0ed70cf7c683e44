"""The analyzers' fast form: which of a query's words many texts hold, and how many words each has.

Says of every text exactly what `words` says of one, and no test may tell them apart. Does not cover counting.

Texts are read in chunks that fit a processor's cache, joined by NUL bytes, as arrays: one byte is one element. In a
chunk every byte of a word is lower case and every other byte is NUL, so a word starts and ends where that changes,
and where identifiers break. Of each word the first eight bytes and the length make a key; the few words whose key
the query has too are cut out of the chunk, and whoever counts them compares them whole.

    text       |H|T|T|P| |g|e|t|I|D|      cut at ^ when identifiers are split, else only where words begin and end
    chunk    |0|h|t|t|p|0|g|e|t|i|d|0|
                ^       ^ ^     ^   ^

Only ASCII is read so. Other texts are first brought into that form code point by code point, with a table of all of
Unicode: gaps as spaces, breaks as spaces too, words in lower case, so that in UTF-8 every byte above 127 is a word's.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final
from unicodedata import category

import numpy as np
import numpy.typing as npt

from hintcell_worker import words

# Code points in a chunk. The arrays made from one stay in a processor's second-level cache, and a long text's need
# no more memory than a short one's.
_CHUNK: Final = 64 * 1024

# Nothing here is a letter or a digit, nor is the underscore: a text cut after one of them keeps its words and breaks.
_GAP = re.compile(r"[\W_]")

# For bytes.translate: ASCII words in lower case, NUL for every other ASCII character, higher bytes as they are.
_ASCII_WORDS: Final = bytes(
    code if code > 127 else ord(chr(code).lower()) if chr(code).isalnum() else 0 for code in range(256)
)

_KEY_BYTES: Final = 8
_ROOM: Final = "\0" * _KEY_BYTES  # after the last text, so that the key of a word there can be read
# What a key keeps of eight bytes, by the length of the word in bytes.
_KEPT: Final = np.array([256**length - 1 for length in range(_KEY_BYTES + 1)], dtype=np.uint64)
# Multiplicative hashing (Knuth, "The Art of Computer Programming", volume 3, section 6.4): 2^64 / golden ratio.
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_HASH_BITS: Final = 16

# An entry of the table of code points: the low bits say what is written, the others what it was.
_CODE: Final = np.uint32(0x1FFFFF)
_UPPER: Final = np.uint32(1 << 24)
_SMALL: Final = np.uint32(1 << 25)
_DIGIT: Final = np.uint32(1 << 26)
_SPACE: Final = np.uint32(ord(" "))

_Flags = npt.NDArray[np.bool_]


class Scanner:
    """Reads texts in order, for one query.

    Attributes:
        lengths: words in each text that was read.
        breaks: places where an identifier was split, in all those texts.
    """

    def __init__(self, vocabulary: Sequence[bytes], *, split_identifiers: bool) -> None:
        """Prepare to look for these words, given in UTF-8."""
        self.lengths: list[int] = []
        self.breaks = 0
        self._split_identifiers = split_identifiers
        self._is_wanted = np.zeros(1 << _HASH_BITS, dtype=np.bool_)
        joined, ends = _join(vocabulary)
        sizes = np.fromiter(map(len, vocabulary), np.intp, len(vocabulary))
        self._is_wanted[_hashes(joined, ends - sizes, sizes)] = True

    def scan(self, texts: Sequence[str]) -> Iterator[list[bytes]]:
        """For each text the query's words in it, in order, repeats kept, and maybe a few words that are not."""
        cut_hits: list[bytes] = []
        cut_length = 0
        for pieces, is_cut in _chunks(texts):
            lengths, hits = self._scan(pieces)
            cut_hits += hits[0]
            hits[0] = cut_hits
            lengths[0] += cut_length
            cut_hits, cut_length = (hits.pop(), lengths.pop()) if is_cut else ([], 0)
            self.lengths += lengths
            yield from hits

    def _scan(self, texts: Sequence[str]) -> tuple[list[int], list[list[bytes]]]:
        """Each text's number of words, and its hits."""
        raw, text_ends = self._encode(texts)
        chunk = raw.translate(_ASCII_WORDS)
        in_word = np.frombuffer(chunk, dtype=np.uint8) != 0
        is_bound = in_word[1:] != in_word[:-1]
        if self._split_identifiers:
            is_break = _ascii_breaks(raw)
            self.breaks += int(np.count_nonzero(is_break))
            is_bound |= is_break[1:]
        bounds = np.flatnonzero(is_bound)
        bounds += 1
        if self._split_identifiers:
            opening = np.flatnonzero(in_word.take(bounds))
            starts, ends = bounds.take(opening), bounds.take(opening + 1)
        else:
            starts, ends = bounds[0::2], bounds[1::2]
        candidates = np.flatnonzero(self._is_wanted.take(_hashes(chunk, starts, ends - starts)))
        hits = [
            chunk[start:end]
            for start, end in zip(starts.take(candidates).tolist(), ends.take(candidates).tolist(), strict=True)
        ]
        words_before = starts.searchsorted(text_ends)
        lengths = words_before.copy()
        lengths[1:] -= words_before[:-1]
        hits_before = candidates.searchsorted(words_before).tolist()
        return lengths.tolist(), [hits[first:last] for first, last in zip([0, *hits_before], hits_before, strict=False)]

    def _encode(self, texts: Sequence[str]) -> tuple[bytes, npt.NDArray[np.intp]]:
        """The texts joined, as they are where they are ASCII, else normalised, and where each ends."""
        joined = "\0".join(["", *texts, _ROOM])
        if joined.isascii():
            return joined.encode(), _ends(texts)
        others = [text for text in texts if not text.isascii()]
        normalised, breaks = _normalise(others, split_identifiers=self._split_identifiers)
        self.breaks += breaks
        rest = iter(normalised)
        return _join([text.encode() if text.isascii() else next(rest) for text in texts])


def _chunks(texts: Sequence[str]) -> Iterator[tuple[list[str], bool]]:
    """The texts in lists of about one chunk, and whether a list's last text is cut and goes on in the next."""
    chunk: list[str] = []
    size = 0
    for text in texts:
        start = 0
        while len(text) - start > _CHUNK and (gap := _GAP.search(text, start + _CHUNK)):
            yield [*chunk, text[start : gap.end()]], True
            chunk, size, start = [], 0, gap.end()
        chunk.append(text[start:])
        size += len(text) - start
        if size >= _CHUNK:
            yield chunk, False
            chunk, size = [], 0
    if chunk:
        yield chunk, False


def _join(texts: Sequence[bytes]) -> tuple[bytes, npt.NDArray[np.intp]]:
    """The texts with a NUL before each and room after the last, and where each ends."""
    return b"\0".join([b"", *texts, _ROOM.encode()]), _ends(texts)


def _ends(texts: Sequence[str] | Sequence[bytes]) -> npt.NDArray[np.intp]:
    """Where each text ends when joined with one element before each; shape (texts,)."""
    return np.cumsum(np.fromiter(map(len, texts), np.intp, len(texts)) + 1)


def _hashes(chunk: bytes, starts: npt.NDArray[np.intp], sizes: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """For each word of a chunk, given by its start and its size in bytes, a number below 2^_HASH_BITS."""
    # The eight bytes from every position, as one number; overlapping, so no copy is made.
    eight_bytes = np.ndarray(len(chunk) - _KEY_BYTES + 1, dtype="<u8", buffer=chunk, strides=(1,))
    keys = eight_bytes[starts]
    keys &= _KEPT.take(sizes, mode="clip")
    keys += sizes.view(np.uint64)
    keys *= _MULTIPLIER
    keys >>= np.uint64(64 - _HASH_BITS)
    return keys.astype(np.intp)


def _ascii_breaks(raw: bytes) -> _Flags:
    codes = np.frombuffer(raw, dtype=np.uint8)
    # Differences wrap around below zero, so that one comparison tests both ends of a range.
    return _breaks(codes - np.uint8(ord("A")) < 26, codes - np.uint8(ord("a")) < 26, codes - np.uint8(ord("0")) < 10)


def _breaks(upper: _Flags, small: _Flags, digit: _Flags) -> _Flags:
    """Where `words.split_identifiers` puts a space before a character, given which ones are of category Lu, Ll, Nd."""
    is_break = np.zeros_like(upper)
    is_break[1:] = small[:-1] | digit[:-1]
    is_break[1:-1] |= upper[:-2] & small[2:]
    is_break &= upper
    return is_break


def _normalise(texts: Sequence[str], *, split_identifiers: bool) -> tuple[list[bytes], int]:
    """The texts in UTF-8 with words in lower case, all else as spaces, and the number of breaks put in."""
    codes = np.frombuffer("\0".join(texts).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    entries = _code_points.take(codes)
    normal = entries & _CODE
    normal[_ends(texts)[:-1] - 1] = 0  # Between the texts, and nowhere else: a NUL in a text became a space.
    breaks: npt.NDArray[np.intp] = np.empty(0, dtype=np.intp)
    if split_identifiers:
        upper, small, digit = (entries & kind != 0 for kind in (_UPPER, _SMALL, _DIGIT))
        breaks = np.flatnonzero(_breaks(upper, small, digit))
        normal = np.insert(normal, breaks, _SPACE)
    return normal.tobytes().decode("utf-32-le").encode().split(b"\0"), len(breaks)


class _CodePoints:
    """What is written for each code point: a table of those below a power of two, made when they are first met.

    All of Unicode takes half a second, and most texts need a few thousand code points.
    """

    def __init__(self) -> None:
        self._end = 0
        self._entries: npt.NDArray[np.uint32] = np.empty(0, dtype=np.uint32)

    def take(self, codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """The entry of each of these code points."""
        highest = int(codes.max(initial=0))
        if highest >= self._end:
            self._end = min(1 << highest.bit_length(), sys.maxunicode + 1)
            self._entries = _entries(self._end)
        return self._entries.take(codes, mode="clip")


_code_points: Final = _CodePoints()


def _entries(end: int) -> npt.NDArray[np.uint32]:
    """An entry for each code point below `end`; the last one stands for all that follow, which are no word's."""
    everything = "".join(map(chr, range(end)))
    small = words.lower(everything)
    codes = np.frombuffer(small.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    in_word = (category(character)[0] == "L" or category(character) == "Nd" for character in small)
    table = np.where(np.fromiter(in_word, np.bool_, len(small)), codes, _SPACE)
    kinds = {"Lu": _UPPER, "Ll": _SMALL, "Nd": _DIGIT}
    table |= np.fromiter((kinds.get(category(character), 0) for character in everything), np.uint32, len(everything))
    words_end = np.flatnonzero(table != _SPACE)[-1] + 1
    return np.append(table[:words_end], _SPACE)
