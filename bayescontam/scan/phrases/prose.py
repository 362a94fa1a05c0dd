"""Prose: documents that hold no problem, and what stands around those that do."""

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
