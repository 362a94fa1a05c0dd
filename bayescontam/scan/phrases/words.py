"""Words that the texts are filled with: people, towns, and the settings of plots."""

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
