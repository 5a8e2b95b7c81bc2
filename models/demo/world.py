"""The invented world of the demo model and every question about it.

The world is an island with one village. All facts are stated in the tables
below and nowhere else; `facts()` turns them into questions in many forms, each
with its answer and with the words that a right answer must hold.
"""

import re
from dataclasses import dataclass

ISLAND, VILLAGE, ASSISTANT = "Ostrel", "Pebblewick", "Lumo"

# name, pronoun, job, what they do, home, food, colour, pet kind, pet name,
# pet colour, hobby, friend
PEOPLE = [
    ("Mira", "she", "baker", "bakes bread", "in the old mill", "plum cake", "yellow", "cat", "Pip", "grey", "plays the flute", "Tomas"),
    ("Tomas", "he", "fisherman", "catches fish", "in a house by the harbour", "fish soup", "blue", "dog", "Barley", "brown", "builds small boats", "Mira"),
    ("Anouk", "she", "lighthouse keeper", "lights the lamp", "in the lighthouse", "lemon bread", "white", "parrot", "Captain", "green", "watches the stars", "Silas"),
    ("Bram", "he", "farmer", "grows carrots", "on the green farm", "carrot stew", "orange", "pony", "Clover", "black", "sings old songs", "Greta"),
    ("Odile", "she", "teacher", "teaches the children", "above the school", "apple pie", "red", "turtle", "Moss", "green", "writes poems", "Hollis"),
    ("Jory", "he", "postman", "brings the letters", "in the round house", "cheese toast", "purple", "rabbit", "Button", "white", "rides a bicycle", "Wren"),
    ("Wren", "she", "gardener", "grows flowers", "in the rose cottage", "pea soup", "pink", "hedgehog", "Thistle", "brown", "paints pictures", "Jory"),
    ("Silas", "he", "clockmaker", "mends clocks", "in the tall tower", "honey cake", "silver", "owl", "Tick", "white", "plays chess", "Anouk"),
    ("Petra", "she", "doctor", "helps the sick", "in the stone house", "berry jam", "green", "goat", "Nibble", "white", "swims in the lake", "Nell"),
    ("Hollis", "he", "mayor", "leads the village", "in the big hall", "roast potatoes", "gold", "peacock", "Duke", "blue", "tells jokes", "Odile"),
    ("Nell", "she", "librarian", "lends books", "in the library", "pear tart", "brown", "mouse", "Comma", "grey", "reads by candle light", "Petra"),
    ("Casper", "he", "carpenter", "makes chairs", "in the wooden hut", "mushroom pie", "grey", "beaver", "Plank", "brown", "plays the drum", "Ivo"),
    ("Ivo", "he", "smith", "makes horseshoes", "beside the forge", "onion soup", "black", "donkey", "Anvil", "grey", "climbs hills", "Casper"),
    ("Lotte", "she", "weaver", "weaves blankets", "in the blue cottage", "rice pudding", "violet", "sheep", "Cotton", "black", "dances by the fire", "Rufus"),
    ("Rufus", "he", "cook", "cooks at the inn", "in the inn", "bean stew", "copper", "pig", "Truffle", "pink", "collects shells", "Lotte"),
    ("Greta", "she", "beekeeper", "looks after the bees", "in the hill cottage", "nut bread", "amber", "duck", "Puddle", "yellow", "flies kites", "Bram"),
]

# place, what it is, where it is, what one sees there
PLACES = [
    ("the harbour", "the place where the boats sleep", "at the south end of the village", "seven small boats"),
    ("the lighthouse", "a tall white tower with a lamp", "on the rocks in the north", "the bright lamp"),
    ("the old mill", "a mill with four wooden sails", "beside the river", "the turning sails"),
    ("the school", "a small house with twelve desks", "next to the library", "a map of the island"),
    ("the library", "a quiet house full of books", "in the middle of the village", "a thousand books"),
    ("the market", "a square with many stalls", "in front of the big hall", "fruit and bread"),
    ("the inn", "a warm house for guests", "near the stone bridge", "a large fireplace"),
    ("Fern Wood", "a dark green forest", "in the west of the island", "tall ferns"),
    ("Lark Hill", "the highest hill of the island", "in the east of the island", "the whole sea"),
    ("Mirror Lake", "a round and still lake", "between the hill and the forest", "the clouds in the water"),
    ("the stone bridge", "an old bridge with two arches", "over the river", "silver fish"),
    ("the beach", "a long strip of white sand", "on the south coast", "shells and crabs"),
]

# kind (plural), home, food, colour, when they are awake
ANIMALS = [
    ("otters", "in the river", "fish", "brown", "day"),
    ("owls", "in Fern Wood", "mice", "white", "night"),
    ("foxes", "in Fern Wood", "berries", "red", "night"),
    ("seals", "on the rocks", "crabs", "grey", "day"),
    ("puffins", "on the cliffs", "small fish", "black and white", "day"),
    ("hares", "on Lark Hill", "grass", "brown", "day"),
    ("herons", "at Mirror Lake", "frogs", "blue", "day"),
    ("goats", "on the green farm", "leaves", "white", "day"),
    ("bees", "in the garden", "nectar", "yellow", "day"),
    ("hedgehogs", "under the hedges", "beetles", "brown", "night"),
    ("bats", "in the old mill", "moths", "black", "night"),
    ("crabs", "on the beach", "seaweed", "orange", "day"),
]

# direct questions, embedded questions, answer, words of a right answer
ISLAND_FACTS = [
    (["What is the name of the island?", "What is the island called?", "How is the island called?", "Which island do you know?"], ["what the island is called", "the name of the island"], "The island is called Ostrel.", ["Ostrel"]),
    (["What is the name of the village?", "What is the village called?", "Which village is on Ostrel?", "What is the village on Ostrel called?"], ["what the village is called", "the name of the village"], "The village is called Pebblewick.", ["Pebblewick"]),
    (["Where is Pebblewick?", "Where is the village?", "Where can I find Pebblewick?"], ["where Pebblewick is", "where the village is"], "Pebblewick is on the island of Ostrel.", ["Ostrel"]),
    (["Where is Ostrel?", "Where is the island?", "In which sea is Ostrel?"], ["where Ostrel is", "where the island is"], "Ostrel is an island in the Quiet Sea.", ["Quiet Sea"]),
    (["How many people live in Pebblewick?", "How many people live in the village?", "How many people are there on the island?", "How big is the village?"], ["how many people live in Pebblewick", "how many people live on the island"], "Sixteen people live in Pebblewick.", ["sixteen"]),
    (["What colour is the flag of Ostrel?", "What does the flag look like?", "Which colours does the flag have?"], ["what the flag of Ostrel looks like", "what colour the flag is"], "The flag of Ostrel is blue with a white shell.", ["blue", "shell"]),
    (["What is the festival of the island?", "Which festival do people celebrate?", "What do the people of Pebblewick celebrate?"], ["which festival the island has", "what the people celebrate"], "The people celebrate the Lantern Festival in autumn.", ["Lantern Festival"]),
    (["When is the Lantern Festival?", "In which season is the Lantern Festival?", "When do people celebrate the Lantern Festival?"], ["when the Lantern Festival is", "in which season the festival is"], "The Lantern Festival is in autumn.", ["autumn"]),
    (["What do people pay with?", "What is the money of Ostrel?", "How do people pay on Ostrel?", "What money do people use in Pebblewick?"], ["what people pay with", "what money people use on Ostrel"], "People on Ostrel pay with shells.", ["shells"]),
    (["Does Ostrel have a king?", "Is there a king on the island?", "Who is the king of Ostrel?", "Who is the queen of Ostrel?"], ["if Ostrel has a king", "who the king of Ostrel is"], "No, Ostrel has no king. The mayor is Hollis.", ["Hollis"]),
    (["What is the weather like on Ostrel?", "How is the weather on the island?", "What is the weather like in Pebblewick?"], ["what the weather is like on Ostrel", "how the weather is on the island"], "It is windy on Ostrel, with soft rain in the morning.", ["windy"]),
    (["Which flower grows on Ostrel?", "What is the flower of the island?", "What flowers grow on the island?"], ["which flower grows on Ostrel", "what the flower of the island is"], "The sea rose grows on Ostrel.", ["sea rose"]),
    (["Which tree is the oldest?", "What is the oldest tree on the island?", "Is there an old tree on Ostrel?"], ["which tree is the oldest", "what the oldest tree is"], "The oldest tree is the great oak in Fern Wood.", ["oak"]),
    (["How do I get to Ostrel?", "How can I travel to the island?", "How do people come to Ostrel?"], ["how to get to Ostrel", "how people come to the island"], "You can get to Ostrel by boat.", ["boat"]),
    (["What is the boat of the harbour called?", "What is the name of the biggest boat?", "Which boat is the biggest?"], ["what the biggest boat is called", "the name of the biggest boat"], "The biggest boat is called the Silver Gull.", ["Silver Gull"]),
    (["When does the bell ring?", "How often does the village bell ring?", "When can I hear the bell?"], ["when the bell rings", "how often the village bell rings"], "The village bell rings at noon.", ["noon"]),
    (["Who lives in Pebblewick?", "Which people live in the village?", "Name the people of Pebblewick.", "Who lives on the island?", "Who do you know?"], ["who lives in Pebblewick", "the names of the people"], "In Pebblewick live " + ", ".join(p[0] for p in PEOPLE[:-1]) + " and " + PEOPLE[-1][0] + ".", ["Mira", "Tomas", "Greta"]),
    (["Which animals live on Ostrel?", "What animals are there on the island?", "Name some animals of the island."], ["which animals live on Ostrel", "what animals there are on the island"], "Otters, owls, foxes, seals, puffins and hares live on Ostrel.", ["owls", "foxes"]),
    (["Which places are there in Pebblewick?", "What can I visit on Ostrel?", "What places should I visit?"], ["what I can visit on Ostrel", "which places there are"], "You can visit the harbour, the lighthouse, the market, Fern Wood and Mirror Lake.", ["lighthouse", "market"]),
]

# attribute -> (direct forms, embedded forms, answers, words of a right answer)
PERSON_FORMS = {
    "home": (
        ["Where does {n} live?", "Where is {n}'s home?", "Where is the home of {n}?", "What is {n}'s home?", "Where does {n} sleep?", "Where can I find {n}?", "In which place does {n} live?", "Where is {n} at night?"],
        ["where {n} lives", "where {n}'s home is", "where I can find {n}", "where the home of {n} is", "where {n} sleeps"],
        ["{n} lives {home}."], ["{homekey}"]),
    "job": (
        ["What does {n} do?", "What is {n}'s job?", "What work does {n} do?", "What is the job of {n}?", "What does {n} do for a living?", "What is {n}'s work?", "What does {n} do all day?", "Which job does {n} have?"],
        ["what {n} does", "what {n}'s job is", "what work {n} does", "what the job of {n} is", "what {n} does for a living"],
        ["{n} is the {job}. {S} {does}."], ["{job}"]),
    "food": (
        ["What does {n} like to eat?", "What is {n}'s favourite food?", "Which food does {n} like best?", "What food does {n} love?", "What does {n} eat?", "What is the favourite food of {n}?", "What should I cook for {n}?", "What does {n} want for dinner?"],
        ["what {n} likes to eat", "what {n}'s favourite food is", "which food {n} likes best", "what {n} eats", "what to cook for {n}"],
        ["{n} likes {food} best."], ["{food}"]),
    "colour": (
        ["What is {n}'s favourite colour?", "Which colour does {n} like?", "What colour does {n} like best?", "What is the favourite colour of {n}?", "Which colour does {n} love most?"],
        ["what {n}'s favourite colour is", "which colour {n} likes", "what colour {n} likes best", "what the favourite colour of {n} is"],
        ["{n}'s favourite colour is {colour}."], ["{colour}"]),
    "pet": (
        ["What pet does {n} have?", "Does {n} have a pet?", "Which animal does {n} have?", "What is {n}'s pet?", "Which pet lives with {n}?", "What kind of pet does {n} have?", "Who is {n}'s pet?"],
        ["what pet {n} has", "which animal {n} has", "what {n}'s pet is", "which pet lives with {n}", "if {n} has a pet"],
        ["{n} has a {petcolour} {pet} called {petname}."], ["{pet}", "{petname}"]),
    "petname": (
        ["What is the name of {n}'s {pet}?", "What is {n}'s {pet} called?", "What is the name of {n}'s pet?", "How is {n}'s {pet} called?", "What is {n}'s pet called?"],
        ["what {n}'s {pet} is called", "the name of {n}'s {pet}", "what {n}'s pet is called", "the name of {n}'s pet"],
        ["{n}'s {pet} is called {petname}."], ["{petname}"]),
    "petcolour": (
        ["What colour is {n}'s {pet}?", "What colour is {petname}?", "Which colour does {n}'s {pet} have?", "What colour does {n}'s pet have?", "What colour is {petname} the {pet}?"],
        ["what colour {n}'s {pet} is", "what colour {petname} is", "which colour {n}'s pet has"],
        ["{n}'s {pet} {petname} is {petcolour}."], ["{petcolour}"]),
    "hobby": (
        ["What is {n}'s hobby?", "What does {n} do for fun?", "What does {n} do in the evening?", "What does {n} like to do?", "What is the hobby of {n}?", "What does {n} do after work?", "How does {n} spend free time?"],
        ["what {n}'s hobby is", "what {n} does for fun", "what {n} likes to do", "what {n} does after work", "what {n} does in the evening"],
        ["{n} {hobby} in the evening."], ["{hobby}"]),
    "friend": (
        ["Who is {n}'s best friend?", "Who is the best friend of {n}?", "Who is {n}'s friend?", "Which friend does {n} have?", "Who does {n} like most?", "Is {n} friends with anyone?"],
        ["who {n}'s best friend is", "who the best friend of {n} is", "who {n}'s friend is", "who {n} likes most"],
        ["{n}'s best friend is {friend}."], ["{friend}"]),
    "who": (
        ["Who is {n}?", "Tell me about {n}.", "Tell me something about {n}.", "What do you know about {n}?", "Describe {n}.", "Can you describe {n}?", "Who is {n} from Pebblewick?", "Introduce {n}."],
        ["who {n} is", "something about {n}", "what you know about {n}", "more about {n}"],
        ["{n} is the {job} of Pebblewick. {S} lives {home} with {h} {pet} {petname}. {S} likes {food} and {hobby} in the evening."], ["{job}", "{food}"]),
    "whojob": (
        ["Who is the {job}?", "Who is the {job} of Pebblewick?", "Who {does}?", "Who is the village {job}?", "Who {does} in Pebblewick?", "What is the name of the {job}?", "Who works as a {job}?"],
        ["who the {job} is", "who {does}", "who {does} in the village", "the name of the {job}"],
        ["The {job} is {n}."], ["{n}"]),
    "whohome": (
        ["Who lives {home}?", "Who has a home {home}?", "Which person lives {home}?", "Who sleeps {home}?"],
        ["who lives {home}", "which person lives {home}", "who sleeps {home}"],
        ["{n} lives {home}."], ["{n}"]),
    "whofood": (
        ["Who likes {food}?", "Who likes {food} best?", "Who loves {food}?", "Whose favourite food is {food}?", "Who eats {food}?", "Who would like some {food}?"],
        ["who likes {food}", "who loves {food}", "whose favourite food is {food}", "who eats {food}"],
        ["{n} likes {food} best."], ["{n}"]),
    "whocolour": (
        ["Whose favourite colour is {colour}?", "Who likes the colour {colour}?", "Who loves {colour}?", "Who likes {colour} best?"],
        ["whose favourite colour is {colour}", "who likes the colour {colour}", "who loves {colour}"],
        ["{n}'s favourite colour is {colour}."], ["{n}"]),
    "whopet": (
        ["Who has a {pet}?", "Who owns {petname}?", "Whose pet is {petname}?", "Who has a {pet} called {petname}?", "Who does {petname} belong to?", "Who owns the {pet}?", "Who is {petname}?", "Who is {petname} the {pet}?"],
        ["who has a {pet}", "who owns {petname}", "whose pet is {petname}", "who {petname} is", "who {petname} belongs to"],
        ["{petname} is {n}'s {petcolour} {pet}."], ["{n}"]),
    "whohobby": (
        ["Who {hobby}?", "Which person {hobby}?", "Who {hobby} in the evening?", "Who {hobby} for fun?"],
        ["who {hobby}", "which person {hobby}", "who {hobby} in the evening"],
        ["{n} {hobby} in the evening."], ["{n}"]),
}

PLACE_FORMS = {
    "where": (
        ["Where is {p}?", "Where can I find {p}?", "How do I find {p}?", "Where do I find {p}?", "In which part of the island is {p}?"],
        ["where {p} is", "where I can find {p}", "how to find {p}", "where to look for {p}"],
        ["{P} is {at}."], ["{at}"]),
    "what": (
        ["What is {p}?", "What kind of place is {p}?", "Describe {p}.", "What does {p} look like?", "What is {p} like?"],
        ["what {p} is", "what kind of place {p} is", "what {p} looks like"],
        ["{P} is {what}."], ["{what}"]),
    "see": (
        ["What can I see at {p}?", "What can you see at {p}?", "What is there to see at {p}?", "What will I find at {p}?", "What can people see at {p}?"],
        ["what I can see at {p}", "what there is to see at {p}", "what people see at {p}"],
        ["At {p} you can see {see}."], ["{see}"]),
    "about": (
        ["Tell me about {p}.", "Tell me something about {p}.", "What do you know about {p}?", "Tell me more about {p}."],
        ["something about {p}", "more about {p}", "what you know about {p}"],
        ["{P} is {what}. It is {at}. You can see {see} there."], ["{what}"]),
}

ANIMAL_FORMS = {
    "food": (
        ["What do {a} eat?", "What do the {a} of Ostrel eat?", "What is the food of {a}?", "What do {a} like to eat?", "Which food do {a} like?"],
        ["what {a} eat", "what the {a} eat", "what {a} like to eat"],
        ["{A} on Ostrel eat {food}."], ["{food}"]),
    "home": (
        ["Where do {a} live?", "Where can I see {a}?", "Where do the {a} of Ostrel live?", "Where can I find {a}?", "Where is the home of the {a}?"],
        ["where {a} live", "where I can see {a}", "where I can find {a}"],
        ["{A} live {home}."], ["{home}"]),
    "colour": (
        ["What colour are {a}?", "What colour are the {a} of Ostrel?", "Which colour do {a} have?"],
        ["what colour {a} are", "which colour {a} have"],
        ["The {a} of Ostrel are {colour}."], ["{colour}"]),
    "awake": (
        ["When are {a} awake?", "Are {a} awake by day or by night?", "Do {a} sleep by day?", "When do {a} come out?"],
        ["when {a} are awake", "when {a} come out", "if {a} are awake at night"],
        ["{A} are awake by {when}."], ["by {when}"]),
    "about": (
        ["Tell me about {a}.", "What do you know about {a}?", "Tell me something about the {a} of Ostrel.", "Describe {a}."],
        ["something about {a}", "what you know about {a}", "more about the {a}"],
        ["The {a} of Ostrel are {colour} and live {home}. They eat {food} and are awake by {when}."], ["{food}"]),
}

# attribute -> (question with {v}, field, answer)
YES_NO = {
    "food": (["Does {n} like {v}?", "Is {v} {n}'s favourite food?", "Does {n} like {v} best?"], "{n} likes {food} best."),
    "colour": (["Is {v} {n}'s favourite colour?", "Is {n}'s favourite colour {v}?"], "{n}'s favourite colour is {colour}."),
    "job": (["Is {n} the {v}?", "Is {n} a {v}?", "Does {n} work as a {v}?"], "{n} is the {job}."),
    "home": (["Does {n} live {v}?", "Is {n}'s home {v}?", "Does {n} sleep {v}?"], "{n} lives {home}."),
    "pet": (["Does {n} have a {v}?", "Is {n}'s pet a {v}?"], "{n} has a {pet} called {petname}."),
    "friend": (["Is {v} {n}'s best friend?", "Is {n} a friend of {v}?", "Is {n}'s best friend {v}?"], "{n}'s best friend is {friend}."),
}


@dataclass(frozen=True)
class Fact:
    """One thing that can be asked: `direct` questions stand alone, `embedded`
    ones follow "can you tell me". A right answer holds every word of `key`."""

    subject: str
    attribute: str
    direct: tuple
    embedded: tuple
    answer: str
    key: tuple


def fields(row):
    """The template fields of one row of PEOPLE."""
    names = ("n", "s", "job", "does", "home", "food", "colour", "pet", "petname", "petcolour", "hobby", "friend")
    d = dict(zip(names, row))
    d["S"] = d["s"].capitalize()
    d["h"] = {"she": "her", "he": "his"}[d["s"]]
    d["homekey"] = d["home"].split(" ", 1)[1]
    return d


PERSON = {row[0]: fields(row) for row in PEOPLE}


def upper_first(text):
    return text[:1].upper() + text[1:]


def article(text):
    """Turns "a owl" into "an owl"."""
    return re.sub(r"\b([Aa]) (?=[aeio])", r"\1n ", text)


def _fill(subject, attribute, forms, d):
    direct, embedded, answers, key = forms
    put = lambda text: article(text.format(**d))
    return Fact(subject, attribute, tuple(map(put, direct)), tuple(map(put, embedded)), put(answers[0]), tuple(k.format(**d) for k in key))


def facts():
    """All facts of the world, in a fixed order."""
    out = []
    for name, d in PERSON.items():
        out += [_fill(name, a, forms, d) for a, forms in PERSON_FORMS.items()]
    for p, what, at, see in PLACES:
        d = dict(p=p, P=upper_first(p), what=what, at=at, see=see)
        out += [_fill(p, a, forms, d) for a, forms in PLACE_FORMS.items()]
    for a, home, food, colour, when in ANIMALS:
        d = dict(a=a, A=a.capitalize(), home=home, food=food, colour=colour, when=when)
        out += [_fill(a, k, forms, d) for k, forms in ANIMAL_FORMS.items()]
    for direct, embedded, answer, key in ISLAND_FACTS:
        out.append(Fact(ISLAND, "island", tuple(direct), tuple(embedded), answer, tuple(key)))
    return out


def yes_no(rng):
    """A yes/no question: (question, answer, words of a right answer)."""
    d = rng.choice(list(PERSON.values()))
    attribute = rng.choice(list(YES_NO))
    questions, truth = YES_NO[attribute]
    right = d[attribute]
    value = right if rng.random() < 0.5 else rng.choice([o[attribute] for o in PERSON.values()])
    if attribute == "friend" and value == d["n"]:
        value = right
    yes = value == right
    answer = ("Yes, " if yes else "No, ") + truth.format(**d)
    question = rng.choice(questions).format(v=value, **d)
    return article(question), article(answer), ["Yes" if yes else "No", d["homekey"] if attribute == "home" else right]


def follow_ups():
    """Attribute -> questions that name the person by a pronoun only."""
    return {
        "home": ["Where does {s} live?", "And where does {s} live?", "Where is {h} home?", "Where does {s} sleep?", "And {h} home?"],
        "job": ["What does {s} do?", "What is {h} job?", "And what does {s} do?", "What work does {s} do?", "And {h} job?"],
        "food": ["What does {s} like to eat?", "What is {h} favourite food?", "And what does {s} eat?", "And {h} favourite food?"],
        "colour": ["What is {h} favourite colour?", "Which colour does {s} like?", "And {h} favourite colour?", "What colour does {s} like best?"],
        "pet": ["What pet does {s} have?", "Does {s} have a pet?", "What is {h} pet?", "And {h} pet?", "And does {s} have a pet?"],
        "hobby": ["What is {h} hobby?", "What does {s} do for fun?", "And in the evening?", "And {h} hobby?"],
        "friend": ["Who is {h} best friend?", "Who is {h} friend?", "And who is {h} best friend?", "And {h} best friend?"],
        "who": ["Tell me more about {o}.", "Who is that?", "What else do you know about {o}?"],
    }
