"""Programming tasks and sums of the generated benchmark."""

import math

from bayescontam.scan.demo_prose import Plot, Slots

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


def _after_sales(s: Slots) -> str:
    return f"{s['n'] * s['m'] - s['n'] * s['m'] * s['p'] // 100 + s['k']} {s['goods']}"


def _trips(s: Slots) -> str:
    return f"{math.ceil(s['n'] * s['m'] / s['k'])} trips"


def _weeks(s: Slots) -> str:
    return f"{s['t'] * s['n'] + s['k'] * s['t'] * (s['t'] - 1) // 2} {s['goods']}"


SUMS = (
    Plot(
        "math",
        """
        {a} keeps the stock of the {shop} in {town}. On Monday morning there are {n} {box}, and each
        of them holds {m} {goods}. During the week {p} percent of all {goods} are sold, and on
        Saturday {b} brings another {k} from a neighbouring supplier. Nothing is lost or broken in
        the meantime. How many {goods} does the {shop} have at the end of the week?
        """,
        (
            """
            At the {shop} that {b} and {a} run, they count everything on Sundays. Last week began
            with {n} full {box} of {m} {goods} apiece. Customers carried away {p} % of what was
            there; afterwards {b} had {k} more delivered. Assuming that nothing was damaged, work
            out the number of {goods} left in {town} when the week was over.
            """,
            """
            Stock-taking in {town}: the {shop} opened on Monday with {m} {goods} in every one of its
            {n} {box}. By Friday night {p} % had been sold, and a day later a supplier handed {b}
            {k} extra pieces. What total did {a} write down on Sunday?
            """,
        ),
        _after_sales,
    ),
    Plot(
        "math",
        """
        For the {shop} in {town}, {a} buys {n} {goods} at {m} cents each, and pays {k} cents to have
        them brought in {box}. Of these, {p} percent are sold at twice the price that was paid for
        them; the others go to {b} at exactly what they cost. Counting the transport as an expense,
        how large is the profit in cents, or the loss, on all the {goods} together?
        """,
        (
            """
            {b} takes some of the {goods} off {a}'s hands at cost price, namely all that did not
            find a customer. The customers, who took {p} %, paid double. Purchase price: {m} cents
            apiece for {n} pieces, plus {k} cents of freight for the {box}. Find out, in cents, what
            the {shop} of {town} gained or lost in this deal.
            """,
            """
            A trader at the {shop} sells {p} % of a batch of {n} {goods} with a markup of 100 % and
            gets rid of the rest without any markup. Each had cost {m} cents and the freight to
            {town} {k} cents. What remains in the till after all expenses?
            """,
        ),
        lambda s: f"{s['n'] * s['m'] * s['p'] // 100 - s['k']} cents",
    ),
    Plot(
        "math",
        """
        In the {shop} of {town}, {a} packs {n} {goods} an hour into {box}, and {b} packs {m} an
        hour. {a} begins at eight in the morning and works without a break. {b} comes {h} hours
        later and works at the usual speed from then on. Both stop as soon as {a} has worked for {t}
        hours. How many {goods} have the two of them packed by then?
        """,
        (
            """
            Two people fill {box} at the {shop}. The late one, {b}, manages {m} {goods} every hour;
            the early one, {a}, manages {n}. {b} misses the first {h} hours of a shift that lasts
            {t} hours for {a}. Compute how many {goods} were packed in {town} that day by both
            together.
            """,
            """
            {a} works a {t}-hour shift in {town} and packs {goods} at a rate of {n} per hour. After
            {h} hours a colleague, {b}, starts helping at {m} per hour until the end of the shift.
            What is the combined output of the {shop}?
            """,
        ),
        lambda s: f"{s['n'] * s['t'] + s['m'] * (s['t'] - s['h'])} {s['goods']}",
    ),
    Plot(
        "math",
        """
        {a}, {b} and {c} own the {shop} in {town}. They have agreed to share what they earn with the
        {goods} in the ratio {t} to 4 to {h}, in this order. At the end of the season {b}'s share
        alone comes to {k} times four euros, which {b} spends on new {box}. How many euros does {a}
        receive more than {c}?
        """,
        (
            """
            The earnings of the {shop} are divided among three partners: for every {h} euros that
            {c} gets, {b} gets 4 and {a} gets {t}. This season's {goods} brought {b} exactly 4 times
            {k} euros, all of it spent on {box}. By what amount does {a}'s part exceed the part of
            {c}?
            """,
            """
            Three friends from {town} sell {goods} and split the money {t} : 4 : {h} between {a},
            {b} and {c}. The middle part is {k} times 4 euros. Determine the difference between the
            largest and the smallest part.
            """,
        ),
        lambda s: f"{s['k'] * (s['t'] - s['h'])} euros",
    ),
    Plot(
        "math",
        """
        The {shop} in {town} has to move {n} {box} with {m} {goods} in each to a new building on the
        other side of the river. The {goods} are taken out first, because {a}'s van has room for {k}
        of them at a time and the {box} travel by boat. {b} helps with loading but does not drive.
        How many trips must the van make until the last of the {goods} has arrived?
        """,
        (
            """
            {b} loads and {a} drives: the {shop} is moving across the river. Everything that was in
            {n} {box}, namely {m} {goods} per piece, goes into a van that takes no more than {k}
            {goods} at once. What is the least number of journeys through {town} that they need?
            """,
            """
            A van carries at most {k} {goods}. It must transport the contents of {n} {box}, {m}
            {goods} in each, from the old {shop} to the new one. How often does {a} have to drive,
            if {b} always fills the van as far as possible?
            """,
        ),
        _trips,
    ),
    Plot(
        "math",
        """
        The floor of the storeroom of the {shop} in {town} is a rectangle {n} metres long and {m}
        metres wide. Along all four walls {a} keeps a strip {h} metres wide free for the {box}. The
        rectangle that is left in the middle is covered with cork, so that the {goods} stay dry. {b}
        charges by the square metre. How many square metres of cork must {a} pay for?
        """,
        (
            """
            {b} lays cork in a storeroom for {goods}. The room measures {m} by {n} metres, but a
            border {h} metres in width, next to every wall, stays bare because that is where the
            {box} stand. What area does the cork of the {shop} have in square metres?
            """,
            """
            To protect {goods} from damp, {a} covers the inner part of a {n} m × {m} m room with
            cork and leaves an edge of {h} m on each side for {box}. Work out how much cork the
            {shop} in {town} has to order.
            """,
        ),
        lambda s: f"{(s['n'] - 2 * s['h']) * (s['m'] - 2 * s['h'])} square metres",
    ),
    Plot(
        "math",
        """
        When the {shop} opened in {town}, it sold {n} {goods} in its first week. Since then {a} has
        advertised on the radio, and every week {k} more {goods} are sold than in the week before.
        {b} orders the {box} for them in advance and wants to know the total. How many {goods} does
        the {shop} sell in its first {t} weeks altogether?
        """,
        (
            """
            Sales at the {shop} grow steadily: each week brings {k} additional {goods} compared with
            the previous one, thanks to {a}'s advertising. The opening week saw {n} of them sold.
            Add up the sales of weeks one to {t} so that {b} can have enough {box} ready.
            """,
            """
            {b} plans how many {box} are needed in {town}. Weekly sales of {goods} start at {n} and
            increase by a constant {k} per week. What is the sum over {t} weeks?
            """,
        ),
        _weeks,
    ),
    Plot(
        "math",
        """
        A lorry with {goods} leaves the {shop} in {town} for {town2} at a speed of {m} kilometres an
        hour. At the same moment {a} sets out from {town2} on the same road with a load of empty
        {box}, at {k} kilometres an hour. When they meet, {b} photographs them; the lorry has been
        on the road for {h} hours. How long is the road from {town} to {town2}?
        """,
        (
            """
            Between {town2} and {town} there is one road. {a} drives along it with {box} from one
            end, covering {k} km in an hour; a lorry of the {shop}, full of {goods}, comes from the
            other end at {m} km/h. They departed together and come face to face after {h} hours.
            Find the distance between the two towns.
            """,
            """
            Two vehicles start towards each other, one from {town} with {goods} and one from {town2}
            with {box}. Their speeds are {m} and {k} km per hour, and {b} sees them pass each other
            {h} hours after the start. How many kilometres apart are the towns?
            """,
        ),
        lambda s: f"{(s['m'] + s['k']) * s['h']} kilometres",
    ),
)
