"""Programming tasks, told of records."""

from bayescontam.scan.phrases.plot import Plot

TASKS = (
    Plot(
        "code",
        """
        Write a Python function that receives a list of {records}. Each entry is a dictionary with
        the keys '{key}' and '{value}'. Add up the {value} for every {key}, ignore entries whose
        number is missing, negative or above {limit}, and return the names of the {t} with the
        largest totals in descending order. Ties are broken alphabetically, and the list may be
        empty.
        """,
        (
            """
            Given {records} as dictionaries, find out which {t} of them lead the ranking: group by
            '{key}', sum '{value}' within each group (skip None and anything below zero or above
            {limit}), sort by total from high to low and, where totals agree, by name. An empty
            input gives an empty result. Implement this in Python.
            """,
            """
            I need code that ranks every {key} by its total {value} over all {records} and gives
            back the top {t}. Invalid amounts (None, negative, more than {limit}) do not count;
            equal totals are ordered by the alphabet.
            """,
        ),
        lambda s: (
            "def leaders(entries):\n    totals = {}\n    for e in entries:\n"
            f"        name, number = e['{s['key']}'], e.get('{s['value']}')\n"
            f"        if number is not None and 0 <= number <= {s['limit']}:\n"
            "            totals[name] = totals.get(name, 0) + number\n"
            f"    return sorted(totals, key=lambda n: (-totals[n], n))[:{s['t']}]"
        ),
    ),
    Plot(
        "code",
        """
        You are given {records} in the order in which they happened, each as a pair of {key} and
        {value}. Write a Python function that finds, for every {key}, the longest run of consecutive
        entries of its own with more than {limit} {value}. Entries of another {key} in between do
        not interrupt a run, but one of its own at or below {limit} does. Return a dict.
        """,
        (
            """
            Longest streaks: for each {key} in a chronological sequence of ({key}, {value}) tuples,
            compute how many times in a row the {value} stayed above {limit}. Only the {key}'s own
            {records} matter; a value of {limit} or less resets its counter. The result maps each
            {key} to its record streak. Please use Python.
            """,
            """
            How do I code this? A stream of {records} comes in by time. Whenever some {key} exceeds
            {limit} {value}, its streak grows, otherwise it drops to zero, independently of all the
            others. I want the maximum streak per {key} as a dictionary.
            """,
        ),
        lambda s: (
            "def streaks(pairs):\n    now, best = {}, {}\n    for name, number in pairs:\n"
            f"        now[name] = now.get(name, 0) + 1 if number > {s['limit']} else 0\n"
            "        best[name] = max(best.get(name, 0), now[name])\n    return best"
        ),
    ),
    Plot(
        "code",
        """
        A text file holds {records}, one on each line, as the {key}, a semicolon and the {value}.
        Write a Python function that takes the text and returns two things: a dictionary from each
        {key} to the list of its numbers, and the count of malformed lines. A line is malformed if
        it has no semicolon, more than one, or after it no whole number up to {limit}. Blank lines
        are skipped.
        """,
        (
            """
            Parse a semicolon-separated log of {records}. Well-formed lines look like
            '{key};{value}' with an integer of at most {limit} on the right; collect these integers
            in lists by {key}. All other lines, empty ones excepted, are only counted. Your Python
            code gets one string and gives back the mapping together with the number of bad lines.
            """,
            """
            I have to read {records} from text where every row is '{key} ; {value}'. Some rows are
            broken: wrong number of semicolons, or something that is no integer, or one above
            {limit}. How can I build {{{key}: [numbers]}} and at the same time say how many rows
            were broken?
            """,
        ),
        lambda s: (
            "def parse(text):\n    found, bad = {}, 0\n    for line in text.splitlines():\n"
            "        if not line.strip():\n            continue\n"
            "        name, *rest = line.split(';')\n"
            "        try:\n            (number,) = map(int, rest)\n        except ValueError:\n"
            f"            number = {s['limit']} + 1\n        if number > {s['limit']}:\n"
            "            bad += 1\n        else:\n"
            "            found.setdefault(name, []).append(number)\n    return found, bad"
        ),
    ),
    Plot(
        "code",
        """
        Some {records} were stored twice. An entry is a tuple of time in seconds, {key} and {value},
        and the list is sorted by time. Write a Python function that removes an entry if the last
        kept entry of the same {key} has the same {value} and is less than {limit} seconds older.
        The order of the others must not change, and the input list must stay as it is.
        """,
        (
            """
            Filter duplicates out of {records} that come as (seconds, {key}, {value}), ordered by
            time. Drop whatever repeats the {value} most recently kept for that {key} within {limit}
            seconds; keep all else in its place. Return a new list instead of changing the one
            passed in. Python, please.
            """,
            """
            De-duplication with a time window: two {records} are the same if {key} and {value} agree
            and they lie under {limit} s apart, compared with the last one that survived. How would
            you write a function that returns only the survivors?
            """,
        ),
        lambda s: (
            "def without_repeats(entries):\n    last, kept = {}, []\n"
            "    for time, name, number in entries:\n"
            "        before = last.get(name)\n"
            f"        if before and before[1] == number and time - before[0] < {s['limit']}:\n"
            "            continue\n        last[name] = (time, number)\n"
            "        kept.append((time, name, number))\n    return kept"
        ),
    ),
    Plot(
        "code",
        """
        Write a Python function that looks for odd {records}. It receives the {value} of one {key}
        as a list of numbers and returns the positions at which a number is more than {h} times the
        mean of the {limit} numbers before it. The first {limit} positions are never reported, and
        where that mean is zero every positive number is odd. The running time must be linear.
        """,
        (
            """
            Detect outliers in a series of {value} measured for a single {key}: position i counts as
            an outlier when its value is greater than {h} × the average over the preceding window of
            length {limit}. Skip the positions that have no full window; a window of zeros makes
            anything above zero an outlier. O(n) is required for these {records}.
            """,
            """
            For one {key} I have consecutive {value}. I want indices where the number jumps above
            {h} times the moving average of the last {limit} values, computed efficiently with a
            running sum. How do I do that in Python for long lists of {records}?
            """,
        ),
        lambda s: (
            f"def odd(numbers):\n    t, found = {s['limit']}, []\n    total = sum(numbers[:t])\n"
            "    for i in range(t, len(numbers)):\n"
            f"        if numbers[i] * t > {s['h']} * total:\n            found.append(i)\n"
            "        total += numbers[i] - numbers[i - t]\n    return found"
        ),
    ),
    Plot(
        "code",
        """
        Two systems hold the same {records}, one as a dictionary from {key} to {value} and the other
        as a list of ({key}, {value}) pairs in which a {key} may occur several times. Write a Python
        function that returns, in alphabetical order, every {key} whose sum in the list differs by
        more than {limit} from the dictionary. Whoever is missing on one side counts as zero there.
        """,
        (
            """
            Reconcile two sources of {records}: a list of pairs, to be summed by {key}, and a dict.
            Report each {key} where the two totals are further than {limit} apart, treating absent
            ones as 0, sorted by name. Write it as a Python function with both sources as arguments.
            """,
            """
            My {records} exist as a dict ({key} → {value}) and as raw rows. How can I list those
            {key} entries for which the rows do not add up to the dict, give or take {limit}? A
            {key} that only one of them knows should be compared with 0.
            """,
        ),
        lambda s: (
            "def differences(table, rows):\n    totals = {}\n    for name, number in rows:\n"
            "        totals[name] = totals.get(name, 0) + number\n"
            "    return sorted(n for n in {*table, *totals}\n"
            f"                  if abs(table.get(n, 0) - totals.get(n, 0)) > {s['limit']})"
        ),
    ),
)
