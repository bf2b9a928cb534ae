"""What MkDocs does besides turning Markdown into HTML.

Before a build the pictures are drawn and the tutorials run, unless they are newer than all code. Pages may call the
functions of `PAGE_FUNCTIONS` in double braces. The reference is generated, formulas become MathML, which browsers
show without a script, and a name of a class in code font leads to the reference.
"""

import ast
import functools
import html
import inspect
import pathlib
import re
import subprocess
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

import jinja2
from math_core import LatexToMathML
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

ROOT = pathlib.Path(__file__).parents[2]
DOCS, EXAMPLES, OUT = ROOT / "docs", ROOT / "docs" / "examples", ROOT / "docs" / "out"
sys.path[:0] = [str(ROOT), str(EXAMPLES), str(DOCS / "website")]  # `parity` and the examples are not installed

import facts
import pytreeopt
import schedule_plots
import trajectories
from pytreeopt.base import Numeric

# What each tutorial runs. The pictures and what is printed lie in docs/out under the name.
RUNS = {
    "demo": ("demo.py",),
    "recompiles": ("recompiles.py",),
    "lbfgs": ("lbfgs.py",),
    "checkpoint": ("checkpoint.py",),
    "population": ("population_based_training.py",),
    "devices": ("many_devices.py",),
}


def on_pre_build(config: MkDocsConfig) -> None:
    """Draws and runs what is not there yet or older than the code."""
    stamp = OUT / "made"
    sources = [path for folder in ("pytreeopt", "parity/rows", "docs") for path in (ROOT / folder).rglob("*.py")]
    if stamp.exists() and stamp.stat().st_mtime > max(path.stat().st_mtime for path in sources):
        return
    OUT.mkdir(exist_ok=True)
    for name, (script, *arguments) in RUNS.items():
        command = [sys.executable, str(EXAMPLES / script), *arguments, "--out", str(OUT / name)]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout
        (OUT / f"{name}.txt").write_text(printed.replace(f"{ROOT}/", ""))
    schedule_plots.draw_all(OUT / "schedules")
    trajectories.draw_all(OUT / "optimizers")
    stamp.touch()


def on_config(config: MkDocsConfig) -> None:
    """Puts the pages of the reference, which are generated, into the navigation."""
    pages = [{facts.title(floor): f"reference/{floor}.md"} for floor in facts.floors()]
    config.nav = [entry | {"Reference": pages} if "Reference" in entry else entry for entry in config.nav or []]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds a page of reference for each floor."""
    for floor, things in facts.floors().items():
        text = "\n\n".join([f"# {facts.title(floor)}", *map(_reference, things)])
        files.append(File.generated(config, f"reference/{floor}.md", content=text))


def _reference(thing: Any) -> str:
    """The directive of mkdocstrings for a class or function, and what the docstring does not know."""
    lines = [f"::: {thing.__module__}.{thing.__qualname__}"]
    if inspect.isclass(thing) and (thing.__name__.startswith("Abstract") or thing is pytreeopt.GradientTransformation):
        lines[0] += f"\n    options:\n      members: {_public_members(thing)}"
    if inspect.isclass(thing):
        name = facts.lower_case_names().get(thing)
        known = [f"Called `{name}`, as in Optax."] if name else []
        chain = next((optimizer.chain for optimizer in facts.optimizers() if optimizer.cls is thing), [])
        if chain:
            known.append(f"With its defaults a chain of {_arrows(chain)}.")
        static = [field for field, is_static in facts.fields(thing) if is_static]
        if static:
            known.append(f"Static: {_codes(static)}.")
        lines.append(" ".join(known))
    return "\n\n".join(filter(None, lines))


def _public_members(cls: type) -> list[str]:
    kinds = types.FunctionType | property | classmethod
    return [name for name, value in vars(cls).items() if not name.startswith("_") and isinstance(value, kinds)]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Calls the functions in double braces."""
    if not page.meta.get("calls"):
        return markdown
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, comment_start_string="{##", autoescape=False)
    return environment.from_string(markdown).render(PAGE_FUNCTIONS)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Formulas as MathML, types by their short names, names of classes as links."""
    return _link_names(_short_types(_render_formulas(content)), page, files)


# -- what pages may call --------------------------------------------------------------------------------------------


def code(script: str, *names: str) -> str:
    """The source of a script in docs/examples, or of single functions and classes in it."""
    source = (EXAMPLES / script).read_text()
    if names:
        lines = source.splitlines()
        found = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        source = "\n\n\n".join("\n".join(_lines(lines, found[name])) for name in names)
    return f'```python title="docs/examples/{script}"\n{source.strip()}\n```'


def _lines(lines: list[str], node: ast.FunctionDef | ast.ClassDef) -> list[str]:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return lines[first - 1 : node.end_lineno]


def output(name: str) -> str:
    """What a run has printed."""
    return f"```text\n{(OUT / f'{name}.txt').read_text().strip()}\n```"


def section(name: str, title: str) -> str:
    """The table below a title of what a run has printed."""
    text = (OUT / f"{name}.txt").read_text()
    return f"```text\n{text.split(title)[1].strip(chr(10)).split(chr(10) * 2)[0]}\n```"


def readme_example() -> str:
    """The first example of the README."""
    return re.findall(r"```python\n.*?\n```", (ROOT / "README.md").read_text(), re.DOTALL)[0]


def optimizer_table() -> str:
    """All that the code knows about each optimizer."""
    head = ("name", "chain", "paper", "state", "extra args", "dynamic", "static", "parity")
    rows = [
        (
            f"[`{o.path}`](#{o.name})",
            _arrows(o.chain) or "of its own",
            ", ".join(f"[{label}]({url})" for label, url in o.references),
            f"{o.bytes_per_parameter:.3g}" if o.bytes_per_parameter >= 1e-4 else "0",
            _codes(o.extra),
            _codes(o.fields(static=False)),
            _codes(o.fields(static=True)),
            o.parity,
        )
        for o in facts.optimizers()
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows))


def optimizer_gallery() -> str:
    """A picture and a line for each optimizer."""
    return "\n\n".join(
        f"### `{o.path}` {{ #{o.name} }}\n\n{o.summary} {o.advice} See `{o.cls.__name__}`.\n\n"
        f"![Two trajectories of {o.name}](out/optimizers/{o.name}.png)"
        for o in facts.optimizers()
    )


def schedule_gallery() -> str:
    """A picture of each schedule, with the call that makes it."""
    parts = []
    for name, schedule in schedule_plots.schedules().items():
        summary = (inspect.getdoc(type(schedule)) or "").splitlines()[0]
        parts.append(
            f"## {name}\n\n{summary} See `{type(schedule).__name__}`.\n\n```text\n{_call(name, schedule)}\n```\n\n"
            f"![{name}](out/schedules/{name}.png)"
        )
    return "\n\n".join(parts)


def _call(name: str, schedule: Any) -> str:
    given = [f"{field}={value!r}" for field, value in facts.given(schedule).items()]
    return f"{name}({', '.join(given)})"


PAGE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        code,
        optimizer_gallery,
        optimizer_table,
        output,
        readme_example,
        schedule_gallery,
        section,
    )
}


def _codes(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _arrows(names: list[str]) -> str:
    return " → ".join(f"`{name}`" for name in names)


# -- formulas and links ---------------------------------------------------------------------------------------------


def _render_formulas(content: str) -> str:
    def convert(match: re.Match[str]) -> str:
        latex = html.unescape(match[2])
        if match[1] == "(":
            return formula(latex, display=False)
        lines = re.split(r"\$\$\s*\$\$", latex)  # formulas one below the other
        return "".join(f'<div class="formula">{"".join(map(_part, _parts(line)))}</div>' for line in lines)

    pattern = r'<(?:div|span) class="arithmatex">\\([\[(])(.*?)\\[\])]</(?:div|span)>'
    return re.sub(pattern, convert, content, flags=re.DOTALL)


def _part(latex: str) -> str:
    return f"<div>{formula(latex, display=True)}</div>"


def _parts(latex: str) -> list[str]:
    """Split at the wide spaces outside all groups, so that a narrow screen can show one part below the other."""
    parts, depth = [""], 0
    for token in re.split(r"(\\q?quad\b|\\begin\b|\\end\b|\\left\b|\\right\b|\\[{}]|[{}])", latex):
        depth += (token in ("{", r"\begin", r"\left")) - (token in ("}", r"\end", r"\right"))
        if depth == 0 and token in (r"\quad", r"\qquad"):
            parts.append("")
        else:
            parts[-1] += token
    return parts


@functools.cache
def formula(latex: str, *, display: bool) -> str:
    """MathML; raises what is no LaTeX. A name in code font may stand in a text."""
    latex = re.sub(r"`(\w+)`", r"}\\texttt{\1}\\text{", latex)
    return LatexToMathML(fancy_error=False).convert_with_local_state(latex, displaystyle=display)


NUMERIC = " | ".join(kind.__name__ for kind in typing.get_args(Numeric))
SHORT_TYPES = {
    NUMERIC: "Numeric",
    "Union[str, type[Any], dtype, SupportsDType, NoneType]": "DTypeLike | None",
}


def _short_types(content: str) -> str:
    """The aliases that the source uses, in place of what they stand for."""

    def shorten(match: re.Match[str]) -> str:
        text = html.unescape(re.sub(r"<.*?>", "", match[1]))
        for long, short in SHORT_TYPES.items():
            text = text.replace(long, short)
        return f"<code>{html.escape(text)}</code>"

    content = re.sub(r"<code>((?:(?!</code>).)*<autoref\b(?:(?!</code>).)*)</code>", shorten, content)
    # At run time a number, annotated with what else it may be; of that the name alone is left here, without a link.
    return re.sub(r"<code>Annotated( \| None)?</code>", r"<code>ScalarOrSchedule\1</code>", content)


@functools.cache
def _anchors() -> dict[str, tuple[str, str]]:
    """The page and the anchor of each public class."""
    return {
        thing.__name__: (f"reference/{floor}.md", f"{thing.__module__}.{thing.__qualname__}")
        for floor, things in facts.floors().items()
        for thing in things
        if inspect.isclass(thing)
    }


def _link_names(content: str, page: Page, files: Files) -> str:
    """`<code>Adam</code>` in running text leads to Adam; not in headings, links and blocks of code."""

    def link(match: re.Match[str]) -> str:
        if match["name"] not in _anchors():
            return match[0]
        path, anchor = _anchors()[match["name"]]
        target = files.get_file_from_path(path)
        assert target is not None
        return f'<a href="{get_relative_url(target.url, page.url)}#{anchor}"><code>{match["name"]}</code></a>'

    pattern = r"<(?P<tag>h[1-6]|a|pre)\b.*?</(?P=tag)>|<code>(?P<name>\w+)</code>"
    return re.sub(pattern, lambda match: link(match) if match["name"] else match[0], content, flags=re.DOTALL)
