"""Time limits of commands that shall do something first and then be ended."""


def long_enough(attempt, came, first):
    """The result of `attempt(limit)`, where `limit` is `first`, or a multiple of it if the machine was too slow for
    `came(result)`."""
    for factor in (1, 6, 36):
        result = attempt(first * factor)
        if came(result):
            break
    return result
