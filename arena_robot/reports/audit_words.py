"""How pages name the rows of an audit's tables, and write its means."""

from arena_robot.audit.aggregate import Mean

ROWS = (('all', 'all'), ('successes', 'successes alone'), ('failures', 'failures alone'))


def mean_words(mean: Mean | None) -> str:
    """Return a mean in percent with its interval, a dash where there is none."""
    if mean is None or not mean.count:
        return '–'
    text, low, high = (f'{100 * x:.0f}' for x in (mean.mean, mean.low, mean.high))
    return text if mean.low != mean.low else f'{text} [{low}, {high}]'
