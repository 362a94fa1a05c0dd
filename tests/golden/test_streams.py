"""Names of random streams: each is a literal of a list, and gives the numbers that it gave.

A renamed stream gives other numbers, and with them other folds, replicates and tables. Names that
hold what varies, such as the number of a replicate, stand for all of their form: … is what varies.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from bayescontam._random import stream

ROOT = Path(__file__).parents[2]
PASSED_ON = {"(*)", "(…)", "(…, …, *)"}
"""Calls that pass the names of others on, whose own calls have literals."""
HELPERS = {"_scores": 2, "_seed": 1}
"""Functions that pass a literal on, and how many arguments stand before it."""
SEEDED: dict[str, tuple[tuple[str | int, ...], tuple[int, int]]] = {
    "('abilities')": (('abilities',), (2704398561, 2205259559)),
    "('answers')": (('answers',), (1682636355, 1819914549)),
    "('assignment', …, …)": (('assignment', 3, 3), (3797297350, 1726722027)),
    "('assumed spillover')": (('assumed spillover',), (4094047055, 381950197)),
    "('bootstrap')": (('bootstrap',), (4218488316, 2876795329)),
    "('bootstrap', …, …)": (('bootstrap', 3, 3), (201781928, 3706863442)),
    "('classifier', …)": (('classifier', 3), (3970942564, 262593881)),
    "('contamination')": (('contamination',), (3667890298, 3779587024)),
    "('counted')": (('counted',), (3630641276, 2612141778)),
    "('curve predictive')": (('curve predictive',), (2495928704, 2635740230)),
    "('curve prior')": (('curve prior',), (4027365594, 3288102730)),
    "('curve')": (('curve',), (631598222, 768504890)),
    "('curve', …)": (('curve', 3), (3001310670, 1460760352)),
    "('curves')": (('curves',), (1033502324, 220767913)),
    "('difficulties')": (('difficulties',), (3451466642, 2642522510)),
    "('draws')": (('draws',), (81573561, 468170300)),
    "('dropout', …)": (('dropout', 3), (206844952, 3675120403)),
    "('duplicates', …, …, …, …)": (('duplicates', 3, 3, 3, 3), (2736553555, 1121649267)),
    "('evidence')": (('evidence',), (2923010532, 2259650359)),
    "('example')": (('example',), (855751980, 3175071245)),
    "('exposures')": (('exposures',), (1539599015, 535706688)),
    "('first')": (('first',), (2033696756, 3980442477)),
    "('fit', …)": (('fit', 3), (3920527601, 17912574)),
    "('fold', …, …, …, …)": (('fold', 3, 3, 3, 3), (2047950298, 2907644005)),
    "('folds', …, …)": (('folds', 3, 3), (3359706484, 659826470)),
    "('generated')": (('generated',), (926570395, 210678736)),
    "('implied')": (('implied',), (960617262, 521409559)),
    "('imputations', …, …)": (('imputations', 3, 3), (2764609538, 2049776775)),
    "('integration')": (('integration',), (3248571863, 3006235441)),
    "('judged pairs')": (('judged pairs',), (3033921306, 2580013452)),
    "('judged')": (('judged',), (991866090, 2733538751)),
    "('judged', …)": (('judged', 3), (1096355229, 1428926709)),
    "('kappa', …, …)": (('kappa', 3, 3), (1764458197, 3044006361)),
    "('lab background', …)": (('lab background', 3), (2646742546, 1679386125)),
    "('lab background', …, …)": (('lab background', 3, 3), (2816119085, 4017091094)),
    "('lab controls')": (('lab controls',), (175641522, 3690756653)),
    "('lab exposed')": (('lab exposed',), (2236180302, 2714976555)),
    "('lab items')": (('lab items',), (2639524005, 232797683)),
    "('lab near')": (('lab near',), (3313386332, 205958884)),
    "('lab places', …)": (('lab places', 3), (2945545626, 513051162)),
    "('lab pretraining', …)": (('lab pretraining', 3), (1751254410, 3981300253)),
    "('lab replies', …)": (('lab replies', 3), (3470218664, 521696259)),
    "('lab training', …)": (('lab training', 3), (571830658, 506665276)),
    "('left out', *)": (('left out', 'x'), (254720966, 3026148621)),
    "('levels')": (('levels',), (3886429198, 1584532664)),
    "('log likelihood')": (('log likelihood',), (3120819563, 1124364633)),
    "('logic grid', …, …, …)": (('logic grid', 3, 3, 3), (3164342709, 3112508474)),
    "('loo')": (('loo',), (2849766455, 64423211)),
    "('mastery')": (('mastery',), (961742355, 1244545196)),
    "('minimal', …, …)": (('minimal', 3, 3), (1113059230, 2900916667)),
    "('new item', …, …, …)": (('new item', 3, 3, 3), (1111599917, 2772595739)),
    "('new tasks')": (('new tasks',), (3588630296, 2989938397)),
    "('order', …)": (('order', 3), (4014977387, 3289764530)),
    "('own effects')": (('own effects',), (576539366, 3413564566)),
    "('pairs')": (('pairs',), (956715071, 2980448064)),
    "('plan', …, 'responses')": (('plan', 3, 'responses'), (3596728168, 411051603)),
    "('plan', …, 'spreads')": (('plan', 3, 'spreads'), (3935384030, 1155699747)),
    "('planting forms')": (('planting forms',), (1265423765, 1203905246)),
    "('planting')": (('planting',), (2759767875, 379916550)),
    "('population')": (('population',), (456197751, 2708630935)),
    "('posterior replicates')": (('posterior replicates',), (1909050155, 1025139253)),
    "('posterior')": (('posterior',), (1044155572, 30467447)),
    "('predictive')": (('predictive',), (3896501034, 3051071571)),
    "('prior population')": (('prior population',), (3899832292, 1691092736)),
    "('prior predictive')": (('prior predictive',), (1950849227, 1656554333)),
    "('prior replicates')": (('prior replicates',), (287829000, 2484443760)),
    "('prior')": (('prior',), (1733230890, 1866719657)),
    "('published bootstrap')": (('published bootstrap',), (1707867893, 3883335330)),
    "('quantities')": (('quantities',), (48229441, 2065713996)),
    "('rate')": (('rate',), (2195172075, 572939205)),
    "('recall covariates')": (('recall covariates',), (256534686, 3083511018)),
    "('recall pairs')": (('recall pairs',), (135781118, 1619373612)),
    "('recall')": (('recall',), (528534993, 291117766)),
    "('replicates')": (('replicates',), (2706464099, 1958601286)),
    "('replies', …)": (('replies', 3), (3230237055, 2138312908)),
    "('resamples')": (('resamples',), (3749202186, 2417387906)),
    "('reweighted')": (('reweighted',), (1229271791, 8358164)),
    "('sample', …)": (('sample', 3), (2821919812, 1217043100)),
    "('sampler')": (('sampler',), (2691809836, 3375438286)),
    "('sbc', *)": (('sbc', 'x'), (1447863940, 212719779)),
    "('shares', …)": (('shares', 3), (463922626, 3552438504)),
    "('sheet')": (('sheet',), (867841803, 3531980137)),
    "('simulated judgements')": (('simulated judgements',), (1177660659, 3887428766)),
    "('simulated responses')": (('simulated responses',), (3083652224, 3527174070)),
    "('slopes')": (('slopes',), (4288348580, 2908297555)),
    "('table')": (('table',), (2353784755, 2302434732)),
    "('table', …)": (('table', 3), (1970277126, 3538228862)),
    "('tables', …)": (('tables', 3), (3528896988, 1799713217)),
    "('tables', …, …)": (('tables', 3, 3), (1139526329, 3948772470)),
    "('tail')": (('tail',), (1380382756, 492939316)),
    "('tasks')": (('tasks',), (1679974764, 1071576871)),
    "('ties')": (('ties',), (2019948592, 2653055910)),
    "('trend')": (('trend',), (3065846234, 3365067910)),
    "('uniformity', …)": (('uniformity', 3), (2442123022, 787277012)),
    "('update', …, …)": (('update', 3, 3), (2264615750, 3113952736)),
    "('validation')": (('validation',), (211707560, 4241178251)),
    "('weighing')": (('weighing',), (2332226941, 2521648349)),
    "('without', …, …)": (('without', 3, 3), (1355718719, 3178520835)),
    "(…, 'audit')": (('a', 'audit'), (4203051230, 3065061986)),
    "(…, 'design')": (('a', 'design'), (2031537033, 2791486088)),
    "(…, 'fit', …)": (('a', 'fit', 3), (194504222, 639305004)),
    "(…, 'fit', …, …)": (('a', 'fit', 3, 3), (3927511477, 1954223545)),
    "(…, 'ties', …)": (('a', 'ties', 3), (3740311427, 4210323747)),
    "(…, *, 'exposures')": (('a', 'x', 'exposures'), (1177108417, 2315667796)),
    "(…, …, 'counts')": (('a', 3, 'counts'), (48059195, 806188563)),
    "(…, …, 'own effects')": (('a', 3, 'own effects'), (3299623330, 2401012679)),
    "(…, …, 'parameters')": (('a', 3, 'parameters'), (4102559357, 2920498913)),
}  # fmt: skip


def calls() -> Iterator[tuple[str, str]]:
    """Give the place and the form of every call for a stream."""
    for path in sorted([*ROOT.glob("bayescontam/**/*.py"), *ROOT.glob("studies/*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and (names := _names(node)) is not None:
                form = ", ".join(_form(name) for name in names)
                yield f"{path.relative_to(ROOT)}:{node.lineno}", f"({form})"


def _names(call: ast.Call) -> list[ast.expr] | None:
    """Return what a call names a stream by; None if it is for something else."""
    if isinstance(call.func, ast.Name) and call.func.id == "stream":
        return call.args[1:]  # after the seed
    if isinstance(call.func, ast.Name) and call.func.id in HELPERS:
        names = call.args[HELPERS[call.func.id] :]
        return names if any(_form(name).startswith("'") for name in names) else None
    if isinstance(call.func, ast.Attribute) and call.func.attr in {"stream", "_stream"}:
        return call.args
    return None


def _form(name: ast.expr) -> str:
    if isinstance(name, ast.Constant):
        return repr(name.value)
    return "*" if isinstance(name, ast.Starred) else "…"


def test_every_call_names_a_stream_of_the_list() -> None:
    found = {form: place for place, form in calls()}
    known = SEEDED.keys() | PASSED_ON
    assert {form: place for form, place in found.items() if form not in known} == {}
    assert SEEDED.keys() - found.keys() == set()


@pytest.mark.parametrize("form", SEEDED)
def test_a_stream_gives_the_numbers_that_it_gave(form: str) -> None:
    names, numbers = SEEDED[form]
    assert stream(1, *names).integers(2**32, size=2).tolist() == list(numbers)
