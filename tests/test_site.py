"""The built documentation: no page loads anything from elsewhere; the reference has the public names and no others."""

import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
# It takes some two seconds.
_BUILD_S = 120

# What loads a file for the page that it stands in. What a reader may click on (`a`) is none of these.
_LOADING = {"src", "srcset", "poster", "data", "background", "xlink:href"}
_LOADING_BY_HREF = {"link", "image", "use"}
_ELSEWHERE = re.compile(r"^\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_CSS_LOAD = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""")

# The theme's script loads these libraries from a host elsewhere when a page has something of this class.
_LOADED_FOR = {"mermaid": "mermaid", "glightbox": "glightbox", "ace-builds": "pyodide", "pyodide": "pyodide"}
# Browsers have had it since 2020, and it is loaded for those that have not.
_LOADED_FOR_OLD_BROWSERS = {"resize-observer-polyfill"}
_LIBRARY = re.compile(r"""https://(?:unpkg\.com|cdn\.[a-z.]+)/([a-z0-9-]+)""")

_PUBLIC = (
    "hintcell",
    "hintcell.catalog",
    "hintcell.policy",
    "hintcell.searches",
    "hintcell.folders",
    "hintcell.integrations.langchain",
    "hintcell.integrations.llama_index",
    "hintcell.integrations.openai_agents",
    "hintcell.integrations.pydantic_ai",
)
# What public calls return, which nobody has to import.
_RETURNED = {
    "hintcell.listening.Listening",
    "hintcell.listening.AsyncListening",
    "hintcell_manager.protocol.SessionStatus",
    "hintcell_manager.protocol.Sample",
    "hintcell_manager.protocol.RefusalReason",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("documentation")
    shutil.copy(_ROOT / "zensical.toml", folder)
    shutil.copytree(_ROOT / "docs", folder / "docs")
    for name in ("client", "worker", "manager"):
        (folder / name).symlink_to(_ROOT / name)
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_BUILD_S, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "site"


class _Page(HTMLParser):
    """What a page or a picture loads, and the classes and ids in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.classes: set[str] = set()
        self.ids: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name in _LOADING or (name == "href" and tag in _LOADING_BY_HREF):
                self.loads.append(value)
            elif name == "style":
                self.loads += _CSS_LOAD.findall(value)
            elif name == "class":
                self.classes.update(value.split())
            elif name == "id":
                self.ids.add(value)

    def handle_data(self, data: str) -> None:
        if self.lasttag == "style":
            self.loads += _CSS_LOAD.findall(data)


def _pages(site: Path) -> Iterator[tuple[str, _Page]]:
    for path in [*site.rglob("*.html"), *site.rglob("*.svg")]:
        yield path.relative_to(site).as_posix(), _Page(path)


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    loads = [(name, load) for name, page in _pages(site) for load in page.loads]
    loads += [(path.name, load) for path in site.rglob("*.css") for load in _CSS_LOAD.findall(path.read_text())]
    names = {name for name, load in loads if load.endswith(".css")}
    assert {"index.html", "sessions.html", "reference.html"} <= names
    assert [(name, load) for name, load in loads if _ELSEWHERE.match(load)] == []


def test_no_page_has_what_the_themes_script_loads_a_library_for(site: Path) -> None:
    libraries = {found for path in site.rglob("*.js") for found in _LIBRARY.findall(path.read_text())}
    assert libraries - _LOADED_FOR_OLD_BROWSERS <= _LOADED_FOR.keys(), "find out what the script loads the new one for"
    used = [(name, page.classes & set(_LOADED_FOR.values())) for name, page in _pages(site)]
    assert [(name, classes) for name, classes in used if classes] == []


def test_the_reference_has_every_public_name(site: Path) -> None:
    ids = _Page(site / "reference.html").ids
    missing = [
        f"{module}.{name}"
        for module in _PUBLIC
        for name in importlib.import_module(module).__all__
        if f"{module}.{name}" not in ids and f"{module}.{name}.{name}" not in ids
    ]
    assert missing == []


def test_the_reference_has_no_name_that_is_not_public(site: Path) -> None:
    public = {f"{module}.{name}" for module in _PUBLIC for name in importlib.import_module(module).__all__} | _RETURNED
    named = {found for found in _Page(site / "reference.html").ids if found.startswith("hintcell") and "." in found}
    internal = {name for name in named if name not in public and name.rpartition(".")[0] not in public}
    assert internal == set()
    asked_among_modules = {
        "is_of_parent",
        "check_owner",
        "give_up",
        "begin",
        "end",
        "check",
        "text_bytes",
        "subscribed",
    }
    assert {name for name in named if name.rpartition(".")[2] in asked_among_modules} == set()


def test_no_signature_has_a_private_name(site: Path) -> None:
    words = set(re.findall(r">(\w+)<", (site / "reference.html").read_text()))
    assert "MAX_SESSIONS" in words
    assert {word for word in words if re.match(r"_[A-Za-z]", word)} == set()


def test_the_first_page_links_every_page_by_its_title() -> None:
    docs = _ROOT / "docs"
    first = (docs / "index.md").read_text()
    titles = {path.name: path.read_text().partition("\n")[0] for path in docs.glob("*.md") if path.name != "index.md"}
    assert [name for name, title in titles.items() if f"[{title.removeprefix('# ')}]({name})" not in first] == []


def test_the_navigation_calls_each_page_by_its_title(site: Path) -> None:
    navigation = re.findall(
        r'<a href="\./([\w-]+)\.html" class="md-nav__link">\s*(?:<[^>]*>\s*)*([^<]+?)\s*<',
        (site / "index.html").read_text(),
    )
    named = {(f"{name}.md", f"# {title}") for name, title in navigation}
    titled = {(path.name, path.read_text().partition("\n")[0]) for path in (_ROOT / "docs").glob("*.md")}
    assert titled - named == {("index.md", "# hintcell")}, "it has no link to itself"
