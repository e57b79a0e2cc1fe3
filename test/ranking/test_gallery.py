"""The notebook docs/gallery.ipynb runs from top to bottom, and says what it promises."""

import ast
import json
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / 'docs' / 'gallery.ipynb'


def run(source, names):
    """Run a cell; return the value of its last line if that is an expression, as notebooks do."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), 'exec'), names)
    return None if last is None else eval(
        compile(ast.Expression(last.value), str(NOTEBOOK), 'eval'), names)


def test_every_cell_of_the_gallery_runs_and_is_kept_without_output(capsys):
    cells = json.loads(NOTEBOOK.read_text(encoding='utf-8'))['cells']
    code = [cell for cell in cells if cell['cell_type'] == 'code']
    assert not any(cell['outputs'] or cell['execution_count'] for cell in code)
    names = {}
    shown = [run(''.join(cell['source']), names) for cell in code]
    assert '<td>pi0</td>' in shown[0]._repr_html_()
    assert shown[1].too_few.any()
    effect, low, high = names['effect'], names['low'], names['high']
    assert low < -2 < high < 0
    assert low < effect < high
    assert names['freed'].order[0] == 0 != names['plain'].order[0]
    said = capsys.readouterr().out
    assert 'more sessions are needed' in said
    assert 'pi0      against octo' in said
