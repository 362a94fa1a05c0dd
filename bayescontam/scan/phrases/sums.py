"""Word problems, told of shops."""

import math

from bayescontam.scan.phrases.plot import Plot, Slots


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
