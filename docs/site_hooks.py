"""
What `make docs` adds to the pages of docs/; mkdocs calls the functions ``on_…``.

The generated reference of :mod:`reference_pages` is added below ``reference/``. A link to a file
of the repository outside docs/ leads to a copy below ``repository/``. Formulas become
MathML, which needs no script. ``llms.txt`` lists all pages of the menu for programs that read
text (https://llmstxt.org).
"""

import re
from html import unescape
from pathlib import Path
from typing import Any

import reference_pages
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = re.compile(r'\]\(\.\./([^)#]+)')
# Copied although no page of docs/ links to them.
COPIED = ('README.md', 'CONTRIBUTING.md')
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
# Roles of reStructuredText in docstrings, such as :func:`rank`.
LINK = re.compile(r'!?\[([^\]]*)\]\([^)]*\)')
ROLE = re.compile(r':(?:attr|class|data|exc|func|meth|mod):(?=<code>)')


def copied() -> list[str]:
    """Return the files outside docs/ that the site has a copy of."""
    linked = {path for page in (ROOT / 'docs').glob('*.md')
              for path in OUTSIDE.findall(page.read_text(encoding='utf-8'))}
    return sorted({*COPIED, *reference_pages.PROTOS, *linked})


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the generated pages, and the files outside docs/ that pages link to."""
    for name, text in reference_pages.pages().items():
        files.append(File.generated(config, f'reference/{name}.md', content=text))
    for path in copied():
        files.append(File.generated(config, f'repository/{path}', abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turn links between docs/ and the rest of the repository into links within the site."""
    if page.file.src_uri == 'repository/README.md':
        return markdown.replace('](docs/', '](../')
    if page.file.src_uri.startswith('repository/'):
        return markdown
    return OUTSIDE.sub(r'](repository/\1', markdown) if '/' not in page.file.src_uri else markdown


def on_page_content(html: str, **_: Any) -> str:
    """Draw formulas, and leave out what only reStructuredText reads."""
    html = ROLE.sub('', html).replace('::</p>', ':</p>')
    return FORMULA.sub(lambda match: convert(
        unescape(match[2]), display='block' if match[1] == 'div' else 'inline'), html)


def on_page_context(context: Any, page: Page, config: MkDocsConfig, nav: Navigation) -> Any:
    """Write ``llms.txt`` beside the first page, when all pages of the menu have been read."""
    if page.file.src_uri == 'index.md':
        lines = [f'# {config.site_name}', '', f'> {config.site_description}']
        for part in nav.items:
            lines += ['', f'## {part.title}', '']
            lines += [f"- [{item.title}]({item.canonical_url or item.url or './'}): "
                      f'{first_sentence(item.markdown)}' for item in part.children]
        path = Path(config.site_dir, 'llms.txt')
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('\n'.join(lines) + '\n', encoding='utf-8')
    return context


def first_sentence(markdown: str) -> str:
    """Return a page's first sentence of text, without links."""
    text = re.sub(r'```.*?```', '', markdown, flags=re.DOTALL)
    plain = ' '.join(LINK.sub(r'\1', block) for block in re.split(r'\n\s*\n', text)
                     if re.match(r'[\w*\[`"]', block))
    return re.split(r'(?<=[.?!])\s', ' '.join(plain.split()))[0]
