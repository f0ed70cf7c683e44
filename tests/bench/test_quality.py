"""Questions are cut out of texts exactly, and ranks are counted from one."""

from pathlib import Path

import numpy as np
import pytest

from bench import corpus, quality
from bench.quality import ask, compared, first_rank, first_sentence, scores_of, summary, without_docstring
from hintcell import Document
from hintcell_worker import bm25, words


@pytest.mark.parametrize(
    ("text", "stripped", "docstring"),
    [
        ('def f():\n    """One."""\n    return 1', "def f():\n    \n    return 1", "One."),
        ('    def f(self):\n        """One."""\n        pass', "    def f(self):\n        \n        pass", "One."),
        ('def f(): "One."; return 1', "def f(): ; return 1", "One."),
        ("# a file without functions", "# a file without functions", ""),
        ('def f():\n    """Größe.\n\n    Mehr.\n    """  # ü\n    x', "def f():\n      # ü\n    x", "Größe.\n\nMehr."),
        ('@d(\n    1)\nasync def f():\n    r"""A\\b."""', "@d(\n    1)\nasync def f():\n    ", "A\\b."),
        ("def f():\n    x = '''no'''\n", "def f():\n    x = '''no'''\n", ""),
        ('def f():\n    """One."""\n    def g():\n        """Two."""', None, "One."),
        ('def f():\n    f"""One."""', 'def f():\n    f"""One."""', ""),
        ("no source at all (", "no source at all (", ""),
    ],
)
def test_a_docstring_is_cut_out_and_nothing_else(text: str, stripped: str | None, docstring: str) -> None:
    expected = text.replace('"""One."""', "", 1) if stripped is None else stripped
    assert without_docstring(text) == (expected, docstring)


def common_prefix(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def test_of_real_functions_nothing_but_the_literal_is_gone() -> None:
    documents = corpus.corpus().documents
    found = 0
    for document in documents[::7]:
        stripped, docstring = without_docstring(document.text)
        found += bool(docstring)
        if not docstring:
            assert stripped == document.text
            continue
        # Something can be put back in one place, and it is a literal.
        missing = len(document.text) - len(stripped)
        start = common_prefix(stripped, document.text)
        cut = [
            document.text[at : at + missing]
            for at in range(max(0, start - missing), start + 1)
            if document.text[:at] + document.text[at + missing :] == stripped
        ]
        assert any(part.lstrip("rRuU")[:1] in {'"', "'"} for part in cut)
    assert found > 100


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ("One thing. Two.", "One thing."),
        ("One\n    thing\n\nTwo.", "One thing"),
        ("Uses 1.5 of it! More", "Uses 1.5 of it!"),
        ("", ""),
    ],
)
def test_a_question_is_the_first_sentence(docstring: str, sentence: str) -> None:
    assert first_sentence(docstring) == sentence


def test_functions_with_the_same_sentence_are_targets_of_one_question() -> None:
    texts = [
        'def f():\n    """Do one good thing."""',
        "def g(): pass",
        'def h():\n    """Do one good thing. Not two."""',
    ]
    stripped, questions = ask([Document(str(place), text) for place, text in enumerate(texts)])
    assert [tuple(question) for question in questions] == [("Do one good thing.", frozenset({0, 2}))]
    assert all("good" not in text for text in stripped)


def test_counting_all_questions_at_once_gives_the_workers_own_scores() -> None:
    texts = [*corpus.corpus().texts[:200], "Übung macht den Meister"]
    asked = [words.words(text) for text in ("read the data Übung", "nowhereatall", "the the of an array")]
    for question, found in zip(asked, scores_of(asked, texts, split_identifiers=False), strict=True):
        np.testing.assert_array_equal(found, bm25.scores(question, texts))


def test_ranks_start_at_one_and_a_missing_target_is_last() -> None:
    assert first_rank([5, 3, 4], frozenset({4, 3}), 9) == 2
    assert first_rank([5, 3, 4], frozenset({7}), 9) == 9
    assert summary([1, 10, 11, 2]) == (0.25, 0.75, pytest.approx((1 + 0.1 + 1 / 11 + 0.5) / 4), 6.0)
    assert compared([1, 5, 3], [2, 4, 3]) == (1, 1, 1)


def test_functions_below_a_folder_can_be_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The peers are an extra that tests do without.
    own = quality._own_ranks
    monkeypatch.setattr(quality, "ranks_of", own)
    (tmp_path / "a.py").write_text('def f():\n    """Reads a file of settings."""\n\n\ndef g():\n    pass\n')
    assert quality.main(["--root", str(tmp_path)]) == 0
    assert "1 questions of 1" in capsys.readouterr().out


@pytest.mark.parametrize("source", ["def f():\n    pass\n", "x = 1\n"])
def test_a_folder_without_questions_is_said_in_one_line(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_text(source)
    assert quality.main(["--root", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
