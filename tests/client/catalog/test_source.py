"""Which functions each language's query finds: their lines, names, and the first and last line of their texts."""

import contextlib
import tracemalloc
from textwrap import dedent

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hintcell.catalog import source as parsing
from hintcell.catalog.decoding import text_of
from hintcell.catalog.languages import LANGUAGES, grammar, language_of, language_of_header
from hintcell.catalog.model import Part
from hintcell.catalog.source import TooSlowError, functions_of, parse
from hintcell_worker.protocol import MAX_ID_BYTES

_SOURCES = {
    "python": """
        class A:
            # a remark
            @property
            def p(self):
                def inner(): ...
        async def f(): ...
    """,
    "go": """
        // Open opens.
        // It may fail.
        func Open(name string) (*File, error) {
            f := func() {}
            return nil, nil
        }
        type T[K any] struct{ a int }
        func (t *T[K]) Get(k K) int { return 1 }
        func (t T[K]) Value() {}
        func (File) None() {}
        func (f *File) Close() error {
            return nil
        }
        var Hook = func(x int) int { return x }
        type I interface { M() }
        func assembly(x int) int
    """,
    "javascript": """
        /**
         * Adds.
         */
        export function add(a, b) {
          function inner() {}
          return a + b;
        }
        export default function () { return 1; }
        const f = async () => 1;
        const g = function named() {}, h = x => x;
        export const memoed = memo(() => 2);
        class A extends B {
          // makes one
          constructor() { super(); }
          static async #hidden() {}
          handler = (e) => { this.x = e; };
          [Symbol.iterator]() {}
          'quoted:name'() {}
        }
        const api = {
          list() {},
          get: function () {},
          nested: { deep: () => 1 },
        };
        module.exports.run = function () {};
        A.prototype.old = () => {};
        (function () {
          function inside() {}
        })();
        describe('x', () => { it('y', () => {}); });
        const K = class { m() {} };
    """,
    "typescript": """
        export abstract class S<T> {
          @Input() name = 1;
          @HostListener('x')
          @Two()
          onX(e: Event): void {}
          abstract nothing(): void;
          private h = (e: T): void => {};
        }
        export namespace N.M { export function inner(): void {} }
        declare module "m" { function signature(): void; }
        interface I { m(): void }
        export const useIt = <T,>(x: T): T => x;
        function over(a: string): void;
        function over(a: any) { }
    """,
    "tsx": """
        // An app.
        export const App: FC = () => <div onClick={() => 1}>hi</div>;
        export default function Page({a}: P) { return <b/>; }
    """,
    "java": """
        /** Not of a function. */
        public class A<T> {
            /** Makes. */
            public A(int x) { this.x = x; }
            // one
            @Override
            public <R> R get(Class<R> c) throws E {
                Runnable r = new Runnable() { public void run() {} };
                return null;
            }
            abstract void nothing();
            interface Inner { int m(); default int d() { return 1; } }
            enum E { X; int v() { return 0; } }
            record R(int a) { R { } static void s() {} }
        }
    """,
    "c": """
        #include <stdio.h>

        /* Doc
         * two */
        static int
        parse_it(const char *s)
        {
            return 0; }
        char *dup(const char *s) { return 0; }
        int global; /* not of what comes next */
        char **dup2(void) { return 0; }
        #define MAX(a, b) \\
            ((a) > (b) ? (a) : (b))
        #define MIN(a, b) 1
        #ifdef X
        int x(void) { return 1; }
        #else
        int x(void) { return 2; }
        #endif
        int prototype(int);
        void (*pointer(int a))(int) { return 0; }
        int old(a) int a; { return 1; }
        EXPORT(int) exported(int a) { return 1; }
    """,
    "cpp": """
        namespace a::b {
        template <typename T>
        class V {
         public:
          V() : x(1) {}
          ~V() {}
          // adds
          V& operator+=(const V& o) { return *this; }
          explicit operator bool() const { return true; }
          T* at(int i) { return 0; }
          int decl(int);
        };
        // declared above
        template <typename T>
        int V<T>::decl(int i) {
          auto l = [] { return 1; };
          return i;
        }
        }
        int ns::Cl::method() const { return 1; }
        ns::Cl::Cl(int a) : b(a) {}
        ns::Cl::operator int() const { return 1; }
        bool operator==(const A& a, const A& b) { return true; }
        struct S { static int s() { return 1; } };
        auto trailing() -> int { return 1; }
    """,
    "rust": """
        /// Doc.
        #[inline]
        pub fn free<T: X>(t: T) -> T { fn inner() {} t }
        impl<T> Stack<T> {
            /// pushes
            pub fn push(&mut self, t: T) {}
        }
        impl fmt::Display for Stack<u8> { fn fmt(&self) {} }
        impl<'a> Iterator for &'a Foo { fn next(&mut self) {} }
        trait T { fn signature(&self); fn given(&self) {} }
        mod m { pub(crate) async fn inside() {} }
        macro_rules! my { () => {} }
        impl a::B { const fn k() {} }
    """,
    "c_sharp": """
        namespace A.B
        {
            public class C<T> : D
            {
                /// <summary>makes</summary>
                [Obsolete]
                public C(int a) : base(a) { }
                public int P { get; set; }
                public int Q { get { return 1; } }
                public int R => 1;
                public async Task<int> M(int x)
                {
                    int Local() { return 1; }
                    return Local();
                }
                public static C<T> operator +(C<T> a, C<T> b) { return a; }
                public int this[int i] { get { return i; } }
                abstract void Nothing();
            }
            interface I { void M(); }
            record Rec(int a) { public void RM() {} }
        }
    """,
    "ruby": """
        # doc
        def top(a)
          1
        end
        module M
          class A::B < C
            # makes
            def initialize; end
            def self.build(x) = new
            class << self
              def meta; end
            end
            private def hidden; end
            def ==(o); true; end
          end
        end
    """,
    "php": """
        <?php
        namespace A\\B;
        /** doc */
        function f($a) { return 1; }
        abstract class C {
            /**
             * makes
             */
            #[Attr]
            public function __construct() {}
            abstract function nothing();
            public static function s(): int { $x = function() {}; return 1; }
        }
        trait T { function t() {} }
        enum E { case A; function e() {} }
    """,
}

# Of each function: line and name, then the first and the last line of its text (once, if it has one line).
_EXPECTED: dict[str, list[tuple[str, ...]]] = {
    "python": [
        ("4 A.p", "@property", "def inner(): ..."),
        ("6 f", "async def f(): ..."),
    ],
    "go": [
        ("3 Open", "// Open opens.", "}"),
        ("8 T.Get", "func (t *T[K]) Get(k K) int { return 1 }"),
        ("9 T.Value", "func (t T[K]) Value() {}"),
        ("10 File.None", "func (File) None() {}"),
        ("11 File.Close", "func (f *File) Close() error {", "}"),
        ("14 Hook", "var Hook = func(x int) int { return x }"),
    ],
    "javascript": [
        ("4 add", "/**", "}"),
        ("8 default", "export default function () { return 1; }"),
        ("9 f", "const f = async () => 1;"),
        ("10 g", "const g = function named() {}, h = x => x;"),
        ("10 h", "const g = function named() {}, h = x => x;"),
        ("11 memoed", "export const memoed = memo(() => 2);"),
        ("14 A.constructor", "// makes one", "constructor() { super(); }"),
        ("15 A.#hidden", "static async #hidden() {}"),
        ("16 A.handler", "handler = (e) => { this.x = e; };"),
        ("17 A.[Symbol.iterator]", "[Symbol.iterator]() {}"),
        ("18 A.quotedname", "'quoted:name'() {}"),
        ("21 api.list", "list() {},"),
        ("22 api.get", "get: function () {},"),
        ("23 api.nested.deep", "nested: { deep: () => 1 },"),
        ("25 module.exports.run", "module.exports.run = function () {};"),
        ("26 A.prototype.old", "A.prototype.old = () => {};"),
        ("28 inside", "function inside() {}"),
        ("31 K.m", "const K = class { m() {} };"),
    ],
    "typescript": [
        ("5 S.onX", "@HostListener('x')", "onX(e: Event): void {}"),
        ("7 S.h", "private h = (e: T): void => {};"),
        ("9 N.M.inner", "export namespace N.M { export function inner(): void {} }"),
        ("12 useIt", "export const useIt = <T,>(x: T): T => x;"),
        ("14 over", "function over(a: any) { }"),
    ],
    "tsx": [
        ("2 App", "// An app.", "export const App: FC = () => <div onClick={() => 1}>hi</div>;"),
        ("3 Page", "export default function Page({a}: P) { return <b/>; }"),
    ],
    "java": [
        ("4 A.A", "/** Makes. */", "public A(int x) { this.x = x; }"),
        ("7 A.get", "// one", "}"),
        ("12 A.Inner.d", "interface Inner { int m(); default int d() { return 1; } }"),
        ("13 A.E.v", "enum E { X; int v() { return 0; } }"),
        ("14 A.R.R", "record R(int a) { R { } static void s() {} }"),
        ("14 A.R.s", "record R(int a) { R { } static void s() {} }"),
    ],
    "c": [
        ("6 parse_it", "/* Doc", "return 0; }"),
        ("9 dup", "char *dup(const char *s) { return 0; }"),
        ("11 dup2", "char **dup2(void) { return 0; }"),
        ("12 MAX", "#define MAX(a, b) \\", "((a) > (b) ? (a) : (b))"),
        ("16 x", "int x(void) { return 1; }"),
        ("18 x", "int x(void) { return 2; }"),
        ("21 pointer", "void (*pointer(int a))(int) { return 0; }"),
        ("22 old", "int old(a) int a; { return 1; }"),
        ("23 exported", "EXPORT(int) exported(int a) { return 1; }"),
    ],
    "cpp": [
        ("5 a.b.V.V", "V() : x(1) {}"),
        ("6 a.b.V.~V", "~V() {}"),
        ("8 a.b.V.operator+=", "// adds", "V& operator+=(const V& o) { return *this; }"),
        ("9 a.b.V.operator bool", "explicit operator bool() const { return true; }"),
        ("10 a.b.V.at", "T* at(int i) { return 0; }"),
        ("15 a.b.V.decl", "// declared above", "}"),
        ("20 ns.Cl.method", "int ns::Cl::method() const { return 1; }"),
        ("21 ns.Cl.Cl", "ns::Cl::Cl(int a) : b(a) {}"),
        ("22 ns.Cl.operator int", "ns::Cl::operator int() const { return 1; }"),
        ("23 operator==", "bool operator==(const A& a, const A& b) { return true; }"),
        ("24 S.s", "struct S { static int s() { return 1; } };"),
        ("25 trailing", "auto trailing() -> int { return 1; }"),
    ],
    "rust": [
        ("3 free", "/// Doc.", "pub fn free<T: X>(t: T) -> T { fn inner() {} t }"),
        ("6 Stack.push", "/// pushes", "pub fn push(&mut self, t: T) {}"),
        ("8 Stack.fmt", "impl fmt::Display for Stack<u8> { fn fmt(&self) {} }"),
        ("9 Foo.next", "impl<'a> Iterator for &'a Foo { fn next(&mut self) {} }"),
        ("10 T.given", "trait T { fn signature(&self); fn given(&self) {} }"),
        ("11 m.inside", "mod m { pub(crate) async fn inside() {} }"),
        ("12 my", "macro_rules! my { () => {} }"),
        ("13 a.B.k", "impl a::B { const fn k() {} }"),
    ],
    "c_sharp": [
        ("7 C.C", "/// <summary>makes</summary>", "public C(int a) : base(a) { }"),
        ("9 C.Q", "public int Q { get { return 1; } }"),
        ("10 C.R", "public int R => 1;"),
        ("11 C.M", "public async Task<int> M(int x)", "}"),
        ("16 C.operator", "public static C<T> operator +(C<T> a, C<T> b) { return a; }"),
        ("17 C.this", "public int this[int i] { get { return i; } }"),
        ("21 Rec.RM", "record Rec(int a) { public void RM() {} }"),
    ],
    "ruby": [
        ("2 top", "# doc", "end"),
        ("8 M.A.B.initialize", "# makes", "def initialize; end"),
        ("9 M.A.B.build", "def self.build(x) = new"),
        ("11 M.A.B.meta", "def meta; end"),
        ("13 M.A.B.hidden", "private def hidden; end"),
        ("14 M.A.B.==", "def ==(o); true; end"),
    ],
    "php": [
        ("4 f", "/** doc */", "function f($a) { return 1; }"),
        ("10 C.__construct", "/**", "public function __construct() {}"),
        ("12 C.s", "public static function s(): int { $x = function() {}; return 1; }"),
        ("14 T.t", "trait T { function t() {} }"),
        ("15 E.e", "enum E { case A; function e() {} }"),
    ],
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_functions_of_a_language_are_found_with_what_stands_above_them(language: str) -> None:
    assert _found(language) == _EXPECTED[language]


def _found(language: str) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for part in functions_of(dedent(_SOURCES[language]).lstrip("\n"), language):
        lines = part.text.split("\n")
        ends = (lines[0], lines[-1]) if len(lines) > 1 else (lines[0],)
        found.append((f"{part.line} {part.name}", *(line.strip() for line in ends)))
    return found


@pytest.mark.parametrize("line_break", ["\r\n", "\r"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_line_ends_change_no_line_and_no_name_and_stay_in_the_texts(language: str, line_break: str) -> None:
    source = dedent(_SOURCES[language]).lstrip("\n")
    expected = [part._replace(text=part.text.replace("\n", line_break)) for part in functions_of(source, language)]
    assert functions_of(source.replace("\n", line_break), language) == expected


@given(st.sampled_from(LANGUAGES), st.data())
@example("c", None)
def test_any_piece_of_source_or_bytes_is_taken_apart(language: str, data: st.DataObject | None) -> None:
    source = dedent(_SOURCES[language]).encode()
    if data is not None:
        start = data.draw(st.integers(0, len(source)))
        middle = data.draw(st.binary(max_size=20) | st.text(max_size=20).map(str.encode))
        source = source[:start] + middle + source[data.draw(st.integers(start, len(source))) :]
    text = text_of(source, language)
    lines = text.encode().splitlines()
    parts = functions_of(text, language)
    assert parts == sorted(parts)
    for part in parts:
        assert part.name.isprintable()
        assert ":" not in part.name
        # A text is whole lines of the file, and the line of the id is one of them.
        within = part.text.encode().splitlines() or [b""]
        starts = range(max(0, part.line - len(within)), part.line)
        assert any(lines[start : start + len(within)] == within for start in starts)


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_would_take_a_query_for_ever_is_given_up_and_less_is_not(language: str) -> None:
    for token in ("(", "{ ", ";\n", "if "):
        with pytest.raises(TooSlowError):
            functions_of(dedent(_SOURCES[language]) + token * 200_000, language)
        functions_of(dedent(_SOURCES[language]) + token * 1_000, language)


@pytest.mark.parametrize(
    ("language", "before", "function"),
    [
        ("c", "", "int f(void) { return 'é'; } "),
        ("java", "class A { ", "@B int f() { return 1; } "),
        ("cpp", "namespace a { ", "template <class T> int f() { return 1; } "),
        ("javascript", "/* one */ ", "const f = () => 1; "),
    ],
)
def test_of_a_long_line_each_function_takes_its_own_part(language: str, before: str, function: str) -> None:
    source = f"// above\n{before}{function * 2_000}\n"
    parts = functions_of(source, language)
    assert len(parts) == 2_000
    assert all(part.line == 2 for part in parts)
    assert sum(len(part.text) for part in parts) <= len(source)
    assert all(part.text in function for part in parts)


def test_as_many_functions_as_a_file_can_hold_are_found() -> None:
    # Where each took time in proportion to the file, this would end at pytest's timeout.
    assert len(functions_of("int f(){}\n" * 180_000, "c")) == 180_000


def test_a_long_line_of_python_stays_whole() -> None:
    source = f"class A:\n    def f(self): return '{'x' * 5_000}'"
    assert functions_of(source, "python") == [Part(2, "A.f", source.partition("\n")[2])]


def test_a_file_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_DEADLINE_S", -1.0)
    with pytest.raises(TooSlowError):
        functions_of("def f(): pass\n" * 10_000, "python")


def test_a_grammar_is_loaded_once() -> None:
    assert grammar("go") is grammar("go")


@pytest.mark.parametrize(
    ("name", "language"),
    [
        *(("a.py", "python"), ("a.b.GO", "go"), ("x.mjs", "javascript"), ("x.d.ts", "typescript"), ("x.tsx", "tsx")),
        *(("x.hpp", "cpp"), ("Rakefile", "ruby"), ("a.pyc", None), (".py", None), ("py", None), ("", None)),
    ],
)
def test_a_language_is_told_by_the_suffix(name: str, language: str | None) -> None:
    assert language_of(name) == language


@pytest.mark.parametrize(
    ("source", "language"),
    [
        (b"struct a { int b; };\n/* a class of its own */\n", "c"),
        (b"#pragma once\nnamespace a {\n", "cpp"),
        (b"struct A {\n  public:\n", "cpp"),
        (b"  template <class T>\n", "cpp"),
    ],
)
def test_a_header_is_of_cpp_if_it_has_what_c_does_not(source: bytes, language: str) -> None:
    assert language_of_header("a.h", "c", source) == language
    assert language_of_header("a.c", "c", source) == "c"


@pytest.mark.parametrize("language", ["java", "c_sharp", "cpp"])
def test_types_that_nobody_writes_are_not_parsed(language: str) -> None:
    with pytest.raises(TooSlowError):
        functions_of("A<" * 50_000, language)


@pytest.mark.parametrize("between", ["", " ", "\n\t"])
def test_a_run_of_punctuation_is_too_long_by_its_tokens_alone(between: str) -> None:
    token = f";{between}".encode()
    assert parsing._is_made_up(b"a" + token * 5_000 + b"b")
    assert not parsing._is_made_up((token * 4_999 + b"a") * 3)


_RESTS = {
    "python": (
        "import os\nfrom a import b\n\n\nclass A:\n    X = 1\n    def f(self): pass\n",
        5,
        "class A:\n    X = 1",
    ),
    "go": ('package a\nimport (\n "fmt"\n)\n// Doc.\ntype T struct{}\nfunc F() {}\n', 5, "// Doc.\ntype T struct{}"),
    "javascript": ("import a from 'b'\nfunction f() {}\nconst X = 1\n", 3, "const X = 1"),
    "typescript": (
        "import a from 'b'\ninterface I {\n g(): void;\n}\nfunction f() {}\n",
        2,
        "interface I {\n g(): void;\n}",
    ),
    "tsx": ("import a from 'b'\nfunction f() {}\nconst x = <p>1</p>;\n", 3, "const x = <p>1</p>;"),
    "java": (
        "package a;\nimport b.c;\n/** Doc. */\nabstract class A {\n abstract void g();\n void f() {}\n}\n",
        3,
        "/** Doc. */\nabstract class A {\n abstract void g();",
    ),
    "c": ("#include <a.h>\nvoid f(void) {}\nint x;\n", 3, "int x;"),
    "cpp": ("#include <a.h>\nusing namespace std;\nvoid f() {}\nint x;\n", 4, "int x;"),
    "rust": ("use a::b;\nextern crate c;\npub trait T { fn g(); }\nfn f() {}\n", 3, "pub trait T { fn g(); }"),
    "c_sharp": (
        "using A;\ninterface I { void G(); }\nclass C {\n void F() {}\n}\n",
        2,
        "interface I { void G(); }\nclass C {",
    ),
    "ruby": ("require 'a'\nrequire_relative 'b'\nX = 1\ndef f; end\n", 3, "X = 1"),
    "php": ("<?php\nnamespace A;\nuse B\\C;\nconst X = 1;\nfunction f() {}\n", 4, "const X = 1;"),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_in_no_function_and_no_import_is_one_part_more(language: str) -> None:
    text, line, rest = _RESTS[language]
    functions, found = parse(text, language)
    assert len(functions) == 1
    assert found == [Part(line, "(rest)", rest)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_imports_and_punctuation_alone_are_no_rest(language: str) -> None:
    text, _, rest = _RESTS[language]
    without = "".join(f"{line}\n" for line in text.splitlines() if line not in rest.splitlines())
    assert parse(without, language).rest == []


@given(
    st.lists(st.sampled_from(["def f(): pass", "X = 1", "# é\u2028", "", "class A:", "    def g(self): pass", "\x0c"]))
)
def test_every_line_with_a_word_is_in_a_function_or_in_the_rest(lines: list[str]) -> None:
    functions, rest = parse("\n".join(lines), "python")
    held = "\n".join(part.text for part in [*functions, *rest])
    assert all(line.rstrip() in held for line in lines if any(map(str.isalnum, line)))
    for part in rest:
        assert lines[part.line - 1].strip().startswith(part.text.split("\n")[0].strip())


def test_names_of_what_is_nested_very_deep_take_no_room() -> None:
    opening = "".join(f"namespace n{number} {{\n" for number in range(1_000))
    functions = functions_of(f"{opening}void f() {{}}\n" + "}\n" * 1_000, "cpp")
    assert [len(function.name) for function in functions] == [MAX_ID_BYTES + 1 + len(".f")]


def test_what_the_parser_reads_again_and_again_takes_little_memory() -> None:
    tracemalloc.start()
    try:
        with contextlib.suppress(TooSlowError):
            functions_of("/*a" * 4_000, "c")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * 2**20
