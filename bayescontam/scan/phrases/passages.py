"""Questions on short passages, told of sites."""

from bayescontam.scan.phrases.plot import Plot

PASSAGES = (
    Plot(
        "facts",
        """
        The {site} of {town} was planned by the {actor} {a} {surname} in {year} and opened {t} years
        later. After the {event} it stood empty for {k} years, until {b} {surname2}, a merchant from
        {town2}, paid for its repair and had a bronze plate fixed to the door. Today {m} thousand
        people visit it every summer. In which year did the {site} open for the first time?
        """,
        (
            """
            {b} {surname2} of {town2} is remembered in {town} for having saved the {site}, which
            nobody had used for {k} years following the {event}. It had been designed in {year} by
            {a} {surname}, {actor} by trade, and its doors opened {t} years after that. Question:
            what was the year of its first opening?
            """,
            """
            Travellers to {town} should see the {site}. {a} {surname}, an {actor}, drew the plans in
            {year}; building took {t} years. Then came the {event} and {k} years of neglect, ended
            by the money of {b} {surname2}. When was it inaugurated?
            """,
        ),
        lambda s: str(s["year"] + s["t"]),
    ),
    Plot(
        "facts",
        """
        For a long time the {site} of {town} was thought to be the work of the {actor} {a}
        {surname}. Letters found in {year} in an attic in {town2} show that {a} only signed the
        bills, and that the drawings came from {b} {surname2}, who had lost the right to practise
        after the {event}. The city council has since added a second name to the plaque. Whose
        drawings were used?
        """,
        (
            """
            Who drew the plans of the {site} in {town}? The plaque used to name {a} {surname}. Then,
            in {year}, correspondence turned up in {town2}: it was {b} {surname2} who made the
            drawings, though banned from working since the {event}, while the {actor} {surname} lent
            a signature to the invoices. Both names can be read there now.
            """,
            """
            A forgotten author: {b} {surname2}, barred from the trade because of the {event}, drew
            everything that was built at {town}'s {site}. The fame went to the {actor} {a}
            {surname}, who merely signed, until papers in {town2} revealed the truth in {year}.
            """,
        ),
        lambda s: f"{s['b']} {s['surname2']}",
    ),
    Plot(
        "facts",
        """
        Three {site} projects competed for the prize of {town} in {year}. The one by {a} {surname}
        would have cost {n} thousand crowns, the one by {b} {surname2} {k} thousand more, and the
        one by the {actor} {c} half as much as the first. The jury feared another {event} and chose
        the most expensive because it was the most solid. How much did the winning project cost?
        """,
        (
            """
            In {year} a jury in {town} had to decide between three designs for a {site}. Cheapest
            was {c}'s, at half the price of {a} {surname}'s, who asked for {n} thousand crowns; {b}
            {surname2} wanted {k} thousand on top of that. Mindful of the last {event}, they took
            the sturdiest, which was also the dearest. What was its price?
            """,
            """
            {town} remembered the {event} well, so its council awarded the {site} to {b} {surname2},
            whose offer exceeded that of {a} {surname} ({n} thousand crowns) by {k} thousand. A
            third bid, from the {actor} {c}, was only half of {surname}'s. State the cost of the
            winner.
            """,
        ),
        lambda s: f"{s['n'] + s['k']} thousand crowns",
    ),
    Plot(
        "facts",
        """
        The diary of {a} {surname}, {actor} in {town}, breaks off on the day of the {event}. It has
        {n} pages, of which {m} are about the {site} and the quarrels with {b} {surname2} over
        wages. In {year} the diary was sold in {town2} to a collector who left it to the university
        on one condition: that {k} lines of it be read aloud in the market every year. What must be
        done every year?
        """,
        (
            """
            Reading in the market: the {n}-page diary of the {actor} {a} {surname} came to the
            university with the proviso that each year {k} of its lines be recited there. The
            collector had bought it at {town2} in {year}. It tells, on {m} pages, of the {site} at
            {town} and of rows about pay with {b} {surname2}, up to the {event}. What did the giver
            demand?
            """,
            """
            An unusual gift: someone who acquired {a} {surname}'s diary in {year} passed it on to a
            university, provided that {k} lines of it are read to the people on the market square
            once a year. The {actor} of {town} had filled it with notes on the {site} until the
            {event} put an end to them.
            """,
        ),
        lambda s: f"{s['k']} lines of the diary must be read aloud in the market.",
    ),
)
