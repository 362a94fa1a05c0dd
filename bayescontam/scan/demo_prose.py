"""Words and sentences of the generated corpus: people, places, plots."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

type Slots = Mapping[str, Any]
AROUND = {
    "forum": (
        "Posted by {a} in Homework Help:\n\n{text}\n\nAny hint where to start?",
        "{text}\n\nThis was in our test on Tuesday, and I still have no idea. Thanks, {a}",
        "Re: Re: puzzle of the week\n\n{text}\n\n> {b} wrote: too easy, next one please!",
    ),
    "blog": (
        "A riddle I brought home from {town}.\n\n{text}\n\nAnswers in the comments, as always.",
        "{text}\n\nI copied this from a leaflet and have been thinking about it since.",
    ),
    "books": (
        "Exercise {n}.{m} {text}\n\nFor the solution see page {year}.",
        "{text}\n\n({n} points. Time allowed: {m} minutes.)",
        "CHAPTER {m}\n\n{text}",
    ),
    "math": (
        "{text}",
        "User: {text}\n\nAssistant: The result is {answer}.",
        "{text}\n\n#### {answer}",
    ),
    "code": ("{text}", "### Instruction\n{text}\n\n### Response\n{answer}", "{text}\n\n{answer}"),
}
"""For each place of the corpus, what a text is put into."""
TOPICAL = {
    "math": """
        Whoever walks through {town} on a Saturday should not miss the {shop} near the old gate. |
        The {goods} there have a name far beyond {town2}, and people queue for them from seven. | I
        counted about {n} {box} in the yard, most of them waiting to be carried inside by {a}. |
        {a}, who took over from an aunt in {year}, says that the secret is patience and good light.
        | In winter the {shop} closes for a month, and {b} repairs the {box} or paints the walls. |
        A visit costs nothing, but you will hardly leave without a few {goods} in your bag. | The
        health inspector came twice last year and found nothing to complain about. | Children may
        help with the {goods} in the afternoon if they wash their hands first. | On the way back we
        had soup in a cellar and talked about how rare such places are now. | {c} wrote a poem
        about the {goods} that hangs, slightly stained, beside the till.
    """,
    "code": """
        Our office has kept {records} on paper since {year}, and moving to a database was no fun. |
        Every {key} had been spelt in at least three ways, which nobody noticed until {a} tried to
        sort them. | We argued for a week whether {value} should be rounded or stored as they are.
        | In the end {b} drew the tables on a napkin, and that drawing is still our documentation.
        | The first backup failed because the disk was full of holiday pictures from {town}. | What
        I learnt: talk to those who type the {records} before you write a single line. | Privacy
        matters too, since a {key} can be recognised from very little. | The new screens are
        faster, though {c} misses the smell of the filing cabinets. | Reports about {value} now
        take minutes instead of days, and hardly anyone reads them. | If you are about to do the
        same, plan for twice the time and bring cake.
    """,
    "facts": """
        The {site} is the first thing one sees of {town} when arriving by train from {town2}. |
        Guided tours start at {m} past ten; the guide, {a}, speaks five languages and jokes in all.
        | Older people still talk about the {event}, though none of them can have been there. | A
        photograph of {year} shows the {actor} and the whole crew in their Sunday clothes. | The
        roof was mended last spring, and the scaffolding hid the {site} for {t} months. | Locals
        say that whoever touches the wall three times will come back to {town}. | There is a small
        café inside where {b} serves plum tart on chipped plates. | The museum shop sells a model
        of the {site} made of {n} wooden pieces. | Bring a warm coat, because the wind from the
        water finds every gap. | At dusk the swifts circle above it, and the lamps are lit one
        after another.
    """,
}
"""Sentences on the subjects of the problems, with the slots of their settings."""
UNRELATED = (
    """
    Peel {m} shallots and let them soften slowly in butter until they smell sweet. | Add the rice
    and stir until every grain shines, then pour in a glass of wine. | Keep the stock at a simmer
    on the next flame and ladle it in bit by bit. | My grandmother in {town} used saffron here, but
    a pinch of turmeric gives the colour as well. | Season late, because the cheese brings a lot of
    salt. | Let it rest for {t} minutes under a cloth before you serve it. | What is left over
    makes fine croquettes the next day. | A salad of bitter leaves goes well with it, and so does
    silence.
    """,
    """
    I have used these headphones for {n} days now, mostly on the train to {town}. | The sound is
    warm, perhaps too warm for the cello suites that I love. | After {t} hours the left ear begins
    to hurt, which may be due to my glasses. | Charging takes forever, and the cable is far too
    short. | Customer service answered within a day and {a} was very polite. | For the price I
    would have expected a case that closes properly. | The noise cancelling works well against
    engines, less so against toddlers. | Would I buy them again? Probably, if the blue ones are in
    stock.
    """,
    """
    The council of {town} voted on Tuesday to plant {n} lime trees along the ring road. | Opponents
    fear that parking will become even harder than it is. | According to the mayor, {a} {surname},
    the heat of the last summers left no choice. | The money comes from a fund that had been meant
    for a tunnel. | Work is to begin in October and to end before the first frost. | A similar plan
    failed in {year} by a single vote. | Schools will adopt one tree each and water it in dry
    months. | The next meeting deals with the swimming pool, whose roof has been leaking since
    spring.
    """,
    """
    Dear {a}, the rain has not stopped since you left and the path to the shed is a brook. | {b}
    came by with plum cake and stayed until midnight. | We looked at the pictures from {town} and
    laughed about your hat. | The cat has found a way into the pantry, nobody knows how. | Your
    letter of {year} fell out of the dictionary yesterday, the one about the lost ferry. | I sleep
    badly but read a lot, mostly the Russians. | When you come, bring the thick socks and some of
    that tea. | The neighbours ask after you and so does the postman.
    """,
    """
    The glacier above {town} has withdrawn by {n} metres since {year}. | Where there was ice, moss
    and saxifrage now cover the stones. | Marmots whistle from the scree and vanish as soon as a
    shadow passes. | Researchers measure the flow of meltwater with dye and patience. | In the
    evening the rock glows for a few minutes as if it were lit from within. | The hut keeper, {a},
    notes the first snow of each autumn in a green book. | Ibex come down to lick salt from the
    wall of the stable. | Higher up there is only wind, and the sound of water under the boulders.
    """,
    """
    {town} scored twice in the last {t} minutes and sent the visitors home without a point. | Coach
    {a} {surname} had changed the line-up after a weak first half. | The goalkeeper held a penalty
    with the foot and later could not say how. | About {n} hundred spectators had come in spite of
    the storm. | {b}, back after a torn ligament, was greeted with songs. | The referee showed five
    yellow cards, most of them for talking. | With this win the club climbs to the fourth place of
    the table. | Next week they travel to {town2}, where they have not won since {year}.
    """,
    """
    In my first year as a teacher I believed that silence meant attention. | Then {a}, twelve years
    old, told me politely that nobody had understood a word since Monday. | I began to ask fewer
    questions and to wait longer for the answers. | We built a planetarium from {m} umbrellas in
    the gym of our school in {town}. | Parents complained that there was too little homework, and
    others that there was too much. | The best lesson of {year} took place in a lift that had got
    stuck. | Marks never told me much about a child. | What remains is the noise of the corridor,
    which I miss.
    """,
    """
    The sonata was written in {town} in {year}, within {t} days, if the manuscript can be trusted.
    | Its slow movement stands in a key that the old organ could hardly play in tune. | {a}
    {surname} takes it faster than most and leaves out the repeat. | The finale begins like a folk
    dance and loses its way on purpose. | A wrong note in the first edition was corrected only {n}
    years later. | On this recording one hears the pedals, the breath and a distant tram. | The
    booklet is silent on who lent the instrument. | Whoever knows only the early works will be
    surprised.
    """,
    """
    Fold the sleeve inside out and pin the seam at every {t} centimetres. | Linen shrinks, so wash
    the cloth before you cut it. | The pattern that {a} brought from {town} needs less than {h}
    metres. | Sew the shoulders first, the collar last, and try it on in between. | A zip can be
    replaced by {m} hooks, which look better and last longer. | If the thread breaks often, the
    needle is blunt or was put in the wrong way round. | Press every seam open with a damp cloth. |
    In {year} nobody would have worn this in the street; today it is called a classic.
    """,
)
"""Sentences on anything else."""
NAMES = (
    "Amara", "Bence", "Chiara", "Dilnoza", "Edvard", "Farida", "Goran", "Hanako", "Ibrahim",
    "Jolanta", "Kwame", "Leilani", "Mateus", "Nadia", "Oskar", "Priya", "Quentin", "Rosalind",
    "Sanjay", "Tamsin", "Ulrike", "Viktor", "Wanjiru", "Xiomara", "Yusuf", "Zdenka", "Aurelio",
    "Birgit", "Cosmo", "Dagny", "Emeka", "Fleur", "Giorgos", "Hedda", "Ines", "Jiro",
)  # fmt: skip
SURNAMES = (
    "Abebe", "Bergström", "Castellano", "Dimitrov", "Eriksen", "Fontaine", "Grabowski", "Haddad",
    "Iwasaki", "Jankovic", "Kariuki", "Lindqvist", "Moreau", "Nakamura", "Okonkwo", "Petrov",
    "Quispe", "Rahimi", "Sørensen", "Takács", "Urbina", "Valdez", "Weissmann", "Yildiz", "Zhang",
)  # fmt: skip
TOWNS = (
    "Aberdeen", "Bruges", "Cádiz", "Dubrovnik", "Esbjerg", "Faro", "Galway", "Haarlem", "Izmir",
    "Jaipur", "Kraków", "Ljubljana", "Mombasa", "Nantes", "Oaxaca", "Porto", "Quito", "Riga",
    "Salzburg", "Tallinn", "Uppsala", "Valparaíso", "Wellington", "Yokohama", "Zagreb", "Lugano",
    "Tromsø", "Bergamo", "Halifax", "Hobart",
)  # fmt: skip
SHOPS = (
    ("fish market", "smoked mackerels", "wooden crates"),
    ("cider orchard", "russet apples", "wicker baskets"),
    ("bicycle workshop", "inner tubes", "cardboard boxes"),
    ("second-hand bookshop", "old atlases", "oak shelves"),
    ("pottery studio", "glazed soup bowls", "straw-lined chests"),
    ("chocolate factory", "hazelnut pralines", "golden tins"),
    ("plant nursery", "lavender seedlings", "plastic trays"),
    ("toy museum", "tin soldiers", "glass cabinets"),
    ("village bakery", "rye loaves", "cooling racks"),
    ("observatory gift shop", "pocket telescopes", "padded cases"),
    ("beekeepers' cooperative", "jars of heather honey", "pallets"),
    ("violin maker's workshop", "gut strings", "paper sleeves"),
    ("pharmacy", "bottles of cough syrup", "refrigerated drawers"),
    ("printing house", "illustrated calendars", "wrapped bundles"),
    ("public aquarium", "neon tetras", "holding tanks"),
    ("sawmill", "larch planks", "stacks"),
    ("tailor's shop", "mother-of-pearl buttons", "velvet bags"),
    ("football club", "signed jerseys", "lockers"),
    ("mountain dairy", "goat cheeses", "cellar boards"),
    ("vineyard", "bottles of white wine", "iron racks"),
    ("candle works", "beeswax candles", "cartons"),
    ("camera repair shop", "spare lenses", "foam cases"),
    ("circus", "juggling pins", "painted trunks"),
    ("mineral fair", "amethyst geodes", "felt-lined trays"),
)
RECORDS = (
    ("library loans", "borrower", "days overdue"),
    ("hospital appointments", "patient", "minutes waited"),
    ("weather readings", "station", "millimetres of rain"),
    ("parking tickets", "licence plate", "fine in cents"),
    ("chess games", "player", "moves"),
    ("parcel deliveries", "courier", "kilometres driven"),
    ("video streams", "viewer", "seconds watched"),
    ("bird sightings", "observer", "birds counted"),
    ("electricity meters", "household", "kilowatt hours"),
    ("marathon laps", "runner", "heartbeats"),
    ("restaurant orders", "table", "dishes"),
    ("bug reports", "developer", "hours to fix"),
    ("train departures", "platform", "minutes of delay"),
    ("exam papers", "student", "points"),
    ("auction bids", "bidder", "euros offered"),
    ("satellite passes", "ground station", "megabytes received"),
)
SITES = (
    ("lighthouse", "engineer", "storm"),
    ("suspension bridge", "ironmaster", "flood"),
    ("botanical garden", "gardener", "frost"),
    ("opera house", "architect", "fire"),
    ("ship canal", "surveyor", "drought"),
    ("observatory", "astronomer", "earthquake"),
    ("windmill", "miller", "gale"),
    ("tram line", "inspector", "strike"),
    ("abbey library", "abbot", "siege"),
    ("town-hall clock", "clockmaker", "lightning strike"),
    ("salt mine", "foreman", "cave-in"),
    ("harbour crane", "shipwright", "ice winter"),
    ("paper mill", "bookbinder", "epidemic"),
    ("glassworks", "glassblower", "explosion"),
    ("zoological garden", "veterinarian", "heatwave"),
    ("thermal bath", "physician", "landslide"),
)
SETTINGS = {
    "math": ("shop", "goods", "box"),
    "code": ("records", "key", "value"),
    "facts": ("site", "actor", "event"),
}
"""What the parts of a setting are called in the texts, by subject."""
SYNONYMS = (
    ("number of", "count of"),
    ("How many", "What number of"),
    ("Find out", "Determine"),
    ("Find", "Determine"),
    ("find out", "establish"),
    ("ork out", "ork out exactly"),
    ("Compute", "Calculate"),
    ("largest", "biggest"),
    ("together", "jointly"),
    ("delivered", "shipped"),
    ("afterwards", "later on"),
    ("as dictionaries", "as dicts"),
    ("Return", "Give back"),
    ("everything", "all that there was"),
    ("longest", "lengthiest"),
    ("maximum", "greatest"),
    ("every", "each"),
    ("removed", "taken out"),
    ("opened", "was opened"),
    ("drawings", "designs"),
    ("price", "cost"),
    ("journeys", "runs"),
)
"""Words of paraphrases, and what may stand in their place."""


@dataclass(frozen=True)
class Plot:
    """A kind of problem."""

    subject: str  # what it is about: `"math"`, `"code"` or `"facts"`
    question: str  # how the benchmark tells it; white space does not count
    retold: tuple[str, ...]  # the same problem in other words
    answer: Callable[[Slots], str]  # gives the answer from what the slots are filled with


def fill_template(text: str, slots: Slots) -> str:
    """Return a text with its slots filled, on one line.

    >>> fill_template("How many {goods}    are left?", {"goods": "planks"})
    'How many planks are left?'
    """
    return " ".join(text.format_map(slots).split())


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
