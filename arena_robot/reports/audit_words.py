"""How pages name the rows of an audit's tables, and write its means."""

from arena_robot.audit.aggregate import Mean

ROWS = (('all', 'all'), ('successes', 'successes alone'), ('failures', 'failures alone'))

# A bootstrap of fewer episodes is narrower than what is known, and of equal ones has no width.
ENOUGH = 5


def mean_words(mean: Mean | None) -> str:
    """Return a mean in percent, with its interval where five or more differ; a dash for none."""
    if mean is None or not mean.count:
        return '–'
    text, low, high = (f'{100 * x:.0f}' for x in (mean.mean, mean.low, mean.high))
    told = mean.count >= ENOUGH and mean.low < mean.high
    return f'{text} [{low}, {high}]' if told else text
