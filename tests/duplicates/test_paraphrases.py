"""Paraphrases have the names and numbers of their text, and labels stand for the same options."""

import pytest

from bayescontam.duplicates.forms import labelled_options
from bayescontam.duplicates.items import DuplicateError, Version
from bayescontam.duplicates.kinds import kind_of
from bayescontam.duplicates.paraphrases import check_paraphrase, names_in
from bayescontam.specs.registry import load_recipe

NEW, MOVED = "a number is new", "no longer stands before what it counts"


@pytest.mark.parametrize(
    ("before", "text", "reason"),
    [
        ("which gas do plants take in", "in 1850 what gas was absorbed by 3 plants", NEW),
        ("It is -5 degrees and rises by 3", "At 5 degrees it goes up by 3", "lost"),
        ("It is 5 degrees and rises by 3", "At -5 degrees it goes up by 3", NEW),
        ("A car drives 60 km", "By car, 60 miles are driven", MOVED),
        ("A car drives 60km", "By car, 60miles are driven", "lost"),
        ("Ada has 3 apples and 5 pears", "5 apples and 3 pears are had by Ada", MOVED),
        ("Ada has 3 of the apples and 5 of the pears", "Of the apples 5, of the pears 3 are Ada's",
         MOVED),
        ("Ada has three apples", "Ada owns thirty apples", "lost"),
        ("Ada has three apples and five pears", "Ada owns five apples and three pears", MOVED),
        ("It takes 3 years. Apples cost 5", "It takes 3. Apples of years cost 5", MOVED),
        ("Add 50% of it", "Of it, add 50", "lost"),
        ("twelve apples cost four euros", "four apples cost twelve euros", MOVED),
        ("3 apples cost 5", "5 apples cost 3", MOVED),
        ("3 apples and 5 pears", "5 big apples and 3 big pears", MOVED),
        ("5 apples instead of 3 pears", "3 apples instead of 5 pears", MOVED),
        ("3 bags of 5 pears", "5 bags of 3 pears", MOVED),
        ("What is 5 minus 3", "Compute 3 minus 5", MOVED),
        ("Runs of 5 km and 60 km", "He ran 5 km and 60 miles", MOVED),
        ("It costs $5", "The price is €5", MOVED),
        ("It costs 5 dollars", "The price is 5 euros", MOVED),
        ("Two cars leave", "Three cars leave", "lost"),
        ("We saw 3 Germans and 5 Swedes", "We saw 5 Germans and 3 Swedes", MOVED),
        ("Samples of 1200 men and of 1500 women", "Samples of 1500 men and of 1200 women", MOVED),
        ("Grown by 1100 trees and by 1300 shrubs", "Grown by 1300 trees and by 1100 shrubs", MOVED),
        ("20 pages a day for 5 days", "5 pages a day for 20 days", MOVED),
        ("12 out of 30 children are boys", "30 out of 12 children are boys", MOVED),
        ("4 of the 12 eggs", "12 of the 4 eggs", MOVED),
        ("A team has 12 players. 4 are injured.", "Of a team, 12 are injured; 4 play.", MOVED),
        ("3 apples and 5 pears", "apples: 5, pears: 3", MOVED),
        ("apples: 5, pears: 3", "3 apples and 5 pears", MOVED),
        ("The agent waited 7 years for 3 letters", "The agent waited 7 for 3 letters", MOVED),
        ("Ann is 5 years old; it lasted 7 years", "Ann is aged 5; it lasted 7", MOVED),
        ("He is 5 months old", "He is aged 5", MOVED),
    ],
)  # fmt: skip
def test_numbers_stay_what_they_are(before: str, text: str, reason: str) -> None:
    with pytest.raises(DuplicateError, match=reason):
        check_paraphrase(text, before, names_in(before))
    with pytest.raises(DuplicateError):
        check_paraphrase(text, before, [])


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ("Ada has 3 apples and 5 pears", "5 pears and 3 apples are what Ada has"),
        ("Ada has 5 red apples", "Of apples that Ada has, 5 are red"),
        ("She gave 3 to Ben in 1850, then left", "In 1850 Ben received 3 from her; she went away"),
        ("He is 5 years old", "A 5-year-old is what he is"),
        ("It is −5 at 10:30", "At 10:30 it is −5"),
        ("Water is H2O, and x2 is 1.5e-3", "x2 is 1.5e-3; water is H2O"),
        ("the range 3-5 of a list", "of a list the range 3-5"),
        ("3 of the apples", "of all apples, 3 apples"),
        ("In 1999 John moved to Paris.", "John relocated to Paris in 1999."),
        ("In 1999 prices rose by 3 percent", "A rise of prices by 3 percent came in 1999"),
        ("If 7 divides n, is n odd?", "Suppose n is divisible by 7. Can n be odd?"),
        ("What is 5 plus 3?", "Add up 5 and 3."),
        ("What is 5 plus 3?", "What is 3 plus 5?"),
        ("There are 20 students. 12 wear glasses.", "Of the 20 students, 12 have glasses."),
        ("There are 20 students. 12 wear glasses.", "12 students out of 20 wear glasses."),
        ("There are 20 students. 12 wear glasses.", "Of 20 who learn, 12 students wear glasses."),
        ("Two cars leave. The two cars meet.", "Two cars depart and then meet."),
        ("A race of 5 km and one of 3 km", "Races of 5 and 3 km"),
        ("It costs 5 dollars", "The price is $5"),
        ("A car drives 60 kilometres", "By car, 60 km are driven"),
        ("He is 5 years old", "He is aged 5"),
        ("They are 5 and 7 years old", "They are aged 5 and 7"),
        ("12 of the 30 children are boys", "Of the 30 children, 12 are boys"),
        ("12 of the 30 children are boys", "12 boys are among 30 children"),
        ("In 1999 Ann saw 3 Germans", "3 Germans were seen by Ann in 1999"),
        ("A team has 12 players. 4 are injured.", "4 of 12 players of a team are injured"),
        ("3 apples and 5 pears", "pears: 5, apples: 3"),
        ("20 pages a day for 5 days", "For 5 days, 20 pages each day"),
        ("At 7 Mozart left with 3 friends", "With 3 friends Mozart left at 7"),
    ],
)
def test_other_words_around_numbers_are_allowed(before: str, text: str) -> None:
    check_paraphrase(text, before, names_in(before))


MCQ = "Which gas do plants take in, mostly?\n{}\nAnswer:"
A, B = "A. carbon dioxide\nB. oxygen from the air", "A. oxygen from the air\nB. carbon dioxide"
LINE = "(A) carbon dioxide (B) oxygen from the air"


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (A, B),
        (A, A.replace("dioxide", "monoxide")),
        (A, "A. carbon dioxide"),
        (A, f"{A}\nC. none"),
        (LINE, "(A) oxygen from the air (B) carbon dioxide"),
        (LINE, "(B) carbon dioxide (A) oxygen from the air"),
    ],
)
def test_labels_stand_for_the_same_options(options: str, wrong: str) -> None:
    kind = kind_of(load_recipe("paraphrase"))
    item = Version(MCQ.format(options), "A")
    other = "Mostly, what is absorbed by plants of all gases?\n{}\nAnswer:"
    good = {"text": other.format(options), "answer": "A"}
    assert kind.check(item, ["paraphrase"], good) == ("names", "other words")
    assert {each.line for each in labelled_options(item.text)} <= {*kind.names(item)}
    with pytest.raises(DuplicateError, match="its labelled options are not those of its item"):
        kind.check(item, ["paraphrase"], good | {"text": other.format(wrong)})


def test_options_that_stay_do_not_count_as_the_same_words() -> None:
    kind = kind_of(load_recipe("paraphrase"))
    options = "\n".join(f"{label}. {'a long option of many words ' * 9}" for label in "ABCD")
    item = Version(MCQ.format(options), "A")
    text = "Plants absorb what, above all?\n" + options
    assert kind.check(item, ["paraphrase"], {"text": text, "answer": "A"})
    with pytest.raises(DuplicateError, match="its words are nearly those"):
        kind.check(item, ["paraphrase"], {"text": f"{item.text} Now.", "answer": "A"})
