"""Very short stories: plots made of beats, each beat in several wordings.

A story has a hero, often a friend, a place and a thing; every beat fills its
slots from the same cast, so that a story stays about the same things.
"""

import re

from world import PEOPLE, PERSON, PLACES, article, upper_first

KINDS = ["fox", "otter", "owl", "hare", "seal", "puffin", "hedgehog", "goat", "heron", "crab", "bee", "mouse", "duck", "cat", "dog", "pony", "rabbit", "turtle", "bat", "bear", "frog", "sheep", "donkey", "pig"]
SIZES = ["small", "young", "old", "little", "shy", "brave", "quiet", "clever", "happy", "hungry", "curious", "kind"]
THINGS = ["lantern", "shell", "kite", "bell", "boat", "key", "map", "red hat", "book", "flute", "blanket", "clock", "basket", "blue stone", "feather", "spoon", "drum", "letter", "mirror", "button"]
FOODS = ["plum cake", "honey cake", "apple pie", "pea soup", "nut bread", "berry jam", "pear tart", "carrot stew"]
SPOTS = ["at the harbour", "near the lighthouse", "by the old mill", "at the school", "at the market", "in Fern Wood", "on Lark Hill", "at Mirror Lake", "on the stone bridge", "on the beach", "by the river", "in the garden"]
WHEN = ["One morning", "One evening", "One day", "On a windy day", "On a cold night", "One rainy day", "On a bright morning", "Early one morning", "Late one evening", "In autumn", "In winter", "One warm day"]
OPEN = ["Once upon a time there was {a} called {n} who lived {home}.", "Once upon a time, {a} called {n} lived {home}.", "{n} was {a} who lived {home}.", "Long ago, {a} called {n} lived {home}.", "There once was {a} called {n} who lived {home}."]
OPEN_KIND = ["Once upon a time there was {a} who lived {home}.", "Once upon a time, {a} lived {home}.", "There once was {a} who lived {home}.", "Long ago, {a} lived {home}.", "{A} lived {home}."]
OPEN_PERSON = ["{n} the {job} lived {home}.", "Once upon a time, {n} the {job} lived {home}.", "Everyone in Pebblewick knew {n} the {job}.", "{n} was the {job} of Pebblewick.", "{n} the {job} woke up early."]

# Said after the opening when a thing or a friend is asked for by name, so that it
# is in the story from the start.
OWNS = ["{n} had a {x} and loved it very much.", "{n} had a fine {x}.", "{n} never went out without {h} {x}."]
KNOWS = ["{n} and {f} were good friends.", "{n} had a good friend, {f}.", "{f} lived next door to {n}."]

# Each plot is a list of beats; a beat is a list of wordings; "" lets it out.
# No sentence names the same character twice, and whoever acts on somebody is
# told apart from them by name.
PLOTS = {
    "lost": [
        ["{when}, {s} lost {h} {x} {spot}.", "{when}, {n} could not find {h} {x}.", "{when}, the wind took {h} {x} away."],
        ["{S} looked under every stone, but the {x} was gone.", "{S} looked everywhere and became very sad.", "{n} searched until the sun went down.", ""],
        ["Then {f} came by and offered to help.", "{f} saw how sad {n} was and helped to look.", "{f} asked what was wrong and began to search too."],
        ["Together they found the {x} behind an old tree.", "They found the {x} {spot2}, wet but not broken.", "In the end the {x} was {spot2}."],
        ["{n} thanked {f} and shared some {food}.", "From that day on, {n} and {f} were friends.", "{n} laughed and never lost the {x} again.", "That night {n} slept with a smile."],
    ],
    "storm": [
        ["{when}, a great storm came over the sea.", "{when}, dark clouds came and the wind began to howl.", "{when}, the rain fell so hard that nobody could see."],
        ["{n} heard {f} call for help {spot}.", "{n} saw that {f} was still outside {spot}.", "{f} was alone {spot} and could not get home."],
        ["{S} was afraid, but {s} took {h} {x} and ran outside.", "{n} did not wait and hurried through the rain.", "Step by step, {n} walked through the wind."],
        ["{S} found {f} and led the way home.", "Hand in hand they went back to the village.", "Soon both of them sat warm by the fire."],
        ["In the morning the sun was shining again.", "The next day everyone called {n} a hero.", "They ate {food} and listened to the rain.", "After that, {n} was never afraid of storms."],
    ],
    "sharing": [
        ["{when}, {n} made {food} for the whole week.", "{when}, {n} found a basket full of {food} {spot}.", "{when}, {n} wanted to eat {food} all alone."],
        ["{f} came by and looked very hungry.", "Then {f} came and had nothing to eat.", "On the way home, {n} met {f}, who was hungry."],
        ["{n} thought about it for a moment.", "First {n} wanted to say no.", "{S} looked at the {food} and then at {f}.", ""],
        ["Then {n} gave half of it to {f}.", "So {n} shared the {food} with {f}.", "{S} smiled and said that there was enough for two."],
        ["It tasted better than ever before.", "The next day {f} came back with a {x} as a gift.", "They sat together {spot2} until the stars came out.", "And so {n} learned that sharing is sweet."],
    ],
    "dark": [
        ["{n} was afraid of the dark.", "Every night, {n} was afraid of the dark.", "When the sun went down, {n} always hid under the bed."],
        ["{when}, {f} gave {n} a small {light}.", "{when}, {f} came with a {light}.", "One evening, {f} took {n} outside to look at the stars."],
        ["Together they walked {spot} and listened to the night.", "They sat {spot} and counted the stars.", "They heard an owl and saw the moon in the water."],
        ["{n} saw that the dark was full of quiet and friendly things.", "Little by little, the fear went away.", "It was not so dark after all.", ""],
        ["Now {n} likes the night best of all.", "That night {n} slept well.", "From then on, {n} was not afraid any more."],
    ],
    "race": [
        ["{when}, {n} and {f} had a race to {place}.", "{when}, {n} and {f} wanted to know who was faster.", "{when}, {n} met {f} for a race to {place}."],
        ["{f} was fast, but {n} did not give up.", "{n} ran as fast as the wind.", "At first {f} was far ahead."],
        ["Halfway there, {f} fell and hurt a foot.", "Then {f} fell into the mud.", "On the bridge, {f} lost a shoe and had to stop."],
        ["{n} stopped and helped {f} to stand up.", "{n} turned back and gave {f} a hand.", "Instead of winning, {n} went back to help {f}."],
        ["They came to the end together and laughed.", "Nobody won, but both were happy.", "In the end they both got {food}.", "Since that day they always run side by side."],
    ],
    "find": [
        ["{when}, {n} found a {x} {spot}.", "{when}, {n} saw something shine {spot}: it was a {x}.", "{when}, the sea brought a {x} to the beach and {n} picked it up."],
        ["It was old, and there was a name on it.", "It was beautiful, but it did not belong to {n}.", "{n} wondered who had lost it.", ""],
        ["{n} asked everyone in the village about the {x}.", "{n} carried the {x} from door to door.", "{n} showed the {x} to {f}."],
        ["At last {f} said that it was an old gift from a friend.", "{f} was so glad to have it back.", "{f} had looked for it for many years."],
        ["To say thank you, {f} made {food}.", "{f} told {n} a long story about the {x}.", "{n} went home with a warm heart.", "And the {x} found its way home."],
    ],
    "building": [
        ["{when}, {n} wanted to build a {build}.", "{n} had a dream: to build a {build}.", "{when}, {n} began to build a {build} {spot}."],
        ["It was hard work, and the first one fell apart.", "The first try went wrong, and so did the second.", "Some people laughed about the idea.", ""],
        ["{f} brought some wood and a rope.", "{f} knew a better way and showed it to {n}.", "Then {f} came to help every evening."],
        ["After seven days the {build} was ready.", "In the end the {build} was the finest on the island.", "At last the {build} was done."],
        ["Everyone came to see it.", "{n} and {f} danced for joy.", "They gave it a name and ate {food}.", "{n} was proud and very tired."],
    ],
    "sick": [
        ["{when}, {f} was sick and had to stay in bed.", "{when}, {n} heard that {f} was ill.", "{when}, {f} had a bad cold."],
        ["{n} cooked {food} and brought it over.", "{n} looked for some herbs {spot}.", "{n} took {h} {x} and went to visit."],
        ["{n} sat by the bed and told funny stories.", "{n} sang a soft song until {f} fell asleep.", "{n} stayed the whole day.", ""],
        ["After three days, {f} felt much better.", "The next morning {f} was well again.", "Soon {f} could laugh again."],
        ["Then they sat {spot2} together.", "{f} said that a good friend is the best medicine.", "They were happy to be together again."],
    ],
    "festival": [
        ["It was the day of the Lantern Festival.", "{when}, everyone got ready for the Lantern Festival.", "The Lantern Festival was near, and {n} had no lantern."],
        ["{n} worked all day to make a lantern out of paper.", "{n} wanted to make the brightest lantern of all."],
        ["But the wind blew out the light.", "But it was too heavy to carry.", "But there was no candle left in the village.", ""],
        ["{f} came and gave {n} a light.", "{f} had a good idea and helped {n}.", "Luckily, {f} had one more candle."],
        ["That night the lantern shone over the whole harbour.", "The lights danced on the water, and everyone sang.", "{n} and {f} carried the lantern together.", "It was the best festival of all."],
    ],
    "mistake": [
        ["{when}, {n} broke {f}'s {x}.", "{when}, {n} dropped a {x} that belonged to {f}.", "{when}, {n} took {f}'s {x} without asking."],
        ["{n} was afraid to tell the truth.", "{n} hid the {x} {spot} and said nothing.", "All day {n} felt bad about it."],
        ["In the evening {n} went to {f} and told the truth.", "But the next day {s} said sorry.", "At last {n} knocked on {f}'s door and said sorry."],
        ["{f} was not angry at all.", "{f} was sad for a moment and then smiled.", "{f} thanked {n} for telling the truth.", ""],
        ["Together they made it as good as new.", "They had {food} and were friends again.", "{n} felt as light as a feather.", "Since then, {n} always tells the truth."],
    ],
    "alone": [
        ["{n} often felt alone.", "{n} had nobody to play with.", "Nobody came to visit {n}."],
        ["{when}, {n} met {f} {spot}.", "{when}, {f} came {spot} and said hello.", "{when}, {n} saw {f} sitting {spot}."],
        ["They talked about the sea and the stars.", "They played with {h} {x} until noon.", "{f} did not know the way home, so {n} showed it.", "They found out that both of them liked {food}."],
        ["When it got dark, they did not want to go home.", "The day was over much too soon.", ""],
        ["Now they meet every day.", "From that day on, {n} was never alone again.", "And so two friends found each other."],
    ],
    "moon": [
        ["{when}, {n} saw the moon in the water of Mirror Lake.", "{when}, {n} wanted to catch the moon in the lake."],
        ["{S} thought that the moon had fallen down.", "{S} tried to lift it out with {h} {x}.", "{S} reached into the water, but the moon broke into pieces."],
        ["{f} laughed and pointed at the sky.", "Then {f} came and told {n} to look up.", "{f} sat down beside {n} and waited until the water was still."],
        ["The moon was still up there, round and bright.", "There was one moon for the sky and one for the lake.", ""],
        ["{n} was glad that nothing was lost.", "They looked at both moons for a long time.", "Since that night, {n} says good night to the moon."],
    ],
}
# What fits an asked thing: it belongs to the hero, or the plot begins with it.
WITH_OWN = ("lost", "storm", "sick", "alone", "moon")
WITH_THING = WITH_OWN + ("find", "mistake")

BUILDS = ["boat", "tree house", "kite", "snowman", "raft", "small bridge", "windmill"]
LIGHTS = ["lantern", "candle", "lamp"]


class Cast:
    """Hero, friend and props of one story, as template fields.

    `thing` is a thing that must be in it, `known` says that the friend must."""

    def __init__(self, rng, hero, friend, thing=None, spot=None, known=False):
        a, b = rng.sample(SPOTS, 2)
        food = rng.choice(FOODS)
        self.fields = dict(hero, f=friend["n"], x=thing or rng.choice(THINGS), spot=spot or a, spot2=b if spot != b else a,
                           food=food, when=rng.choice(WHEN), build=rng.choice(BUILDS), light=rng.choice(LIGHTS),
                           place=rng.choice([p[0] for p in PLACES]))
        self.opening, self.thing, self.known = hero["open"], thing, known

    def frame(self, rng):
        """(name of a plot, sentence that brings in what was asked for or "")."""
        if self.thing:
            plot = rng.choice(WITH_THING)
            return plot, rng.choice(OWNS) if plot in WITH_OWN else ""
        if self.known:
            return rng.choice([p for p in PLOTS if p != "alone"]), rng.choice(KNOWS)
        plot = rng.choice(list(PLOTS))
        return plot, rng.choice(KNOWS) if plot != "alone" and rng.random() < 0.3 else ""


def person(name):
    """Cast fields of a villager."""
    p = PERSON[name]
    return dict(n=name, s=p["s"], h=p["h"], o={"she": "her", "he": "him"}[p["s"]], job=p["job"], home=p["home"], a="", open=OPEN_PERSON, ask=name, key=name)


def named(rng, name, kind=None):
    """Cast fields of a child or an animal with a name that the reader gave."""
    girl = rng.random() < 0.5
    s, h, o = ("she", "her", "her") if girl else ("he", "his", "him")
    if kind is None:
        noun = rng.choice(["girl", "girl", "woman"] if girl else ["boy", "boy", "man"])
    else:
        noun = kind
    size = rng.choice(SIZES if noun not in ("girl", "boy") else [x for x in SIZES if x != "old"])
    return dict(n=name, s=s, h=h, o=o, a=article(f"a {size} {noun}"), home=rng.choice(SPOTS), open=OPEN,
                ask=article(f"a {noun} {rng.choice(['called', 'named'])} {name}"), key=name)


def animal(rng, kind):
    """Cast fields of an animal without a name."""
    size = rng.choice(SIZES)
    return dict(n=f"the {kind}", s="it", h="its", o="it", a=article(f"a {size} {kind}"), home=rng.choice(SPOTS), open=OPEN_KIND,
                ask=article(f"a {kind}") if rng.random() < 0.7 else article(f"a {size} {kind}"), key=kind)


def tell(rng, cast):
    """One story of four to seven sentences."""
    d = dict(cast.fields)
    d["A"] = upper_first(d.get("a", ""))
    plot, asked = cast.frame(rng)
    beats = [rng.choice(beat) for beat in PLOTS[plot]]
    while cast.thing and not any("{x}" in beat for beat in beats):
        beats = [rng.choice(beat) for beat in PLOTS[plot]]
    told = not asked and "{n}" in beats[0] and rng.random() < 0.2
    out = beats if told else [rng.choice(cast.opening), asked] + beats
    d["S"] = d["s"].capitalize()
    text = " ".join(s.format(**d) for s in out if s)
    return article(re.sub(r"(^|[.!?] )([a-z])", lambda m: m[1] + m[2].upper(), text))


def hero(rng, name):
    """(cast fields, who it is in a question). `name` makes a fresh name."""
    r = rng.random()
    if r < 0.35:
        return person(rng.choice(PEOPLE)[0])
    if r < 0.65:
        return animal(rng, rng.choice(KINDS))
    return named(rng, name(rng), rng.choice(KINDS) if rng.random() < 0.4 else None)


def friend(rng, name, main):
    """Cast fields of somebody other than the hero: mostly the hero's usual friend."""
    if rng.random() < 0.6 and main["open"] is OPEN_PERSON:
        return person(PERSON[main["key"]]["friend"])
    if rng.random() < 0.6 and main["open"] is OPEN_KIND:
        return animal(rng, KINDS[(KINDS.index(main["key"]) + 7) % len(KINDS)])
    other = hero(rng, name)
    while other["key"] == main["key"]:
        other = hero(rng, name)
    return other


def mentions(text, key):
    """Whether a word or some words are in a text, in any case of letters."""
    return re.search(rf"\b{re.escape(key)}\b", text, re.I) is not None


def story(rng, name):
    """A random story: (text, subject as asked, words that must be in it)."""
    main = hero(rng, name)
    other = friend(rng, name, main)
    thing, spot, known = None, None, False
    asked, key = main["ask"], [main["key"]]
    r = rng.random()
    if r < 0.2:
        known, other = True, main
        while other["open"] is OPEN or other["key"] == main["key"]:
            other = hero(rng, name)
        asked, key = f"{asked} and {other['ask']}", key + [other["key"]]
    elif r < 0.42:
        thing = rng.choice(THINGS)
        asked, key = f"{asked} and {article('a ' + thing)}", key + [thing]
    elif r < 0.47:
        spot = rng.choice(SPOTS)
        asked = f"{asked} {spot}"
    text = ""
    while not all(mentions(text, k) for k in key):
        text = tell(rng, Cast(rng, main, other, thing, spot, known))
    return text, asked, key


ASK = [
    "Tell me a story about {x}.", "Tell me a short story about {x}.", "Tell a story about {x}.", "Can you tell me a story about {x}?",
    "Please tell me a story about {x}.", "I want to hear a story about {x}.", "Write a story about {x}.", "Write a short story about {x}.",
    "Make up a story about {x}.", "Give me a story about {x}.", "I would like a story about {x}.", "A story about {x}, please.",
    "Could you tell us a story about {x}?", "Do you know a story about {x}?", "Tell me a bedtime story about {x}.", "Story about {x}",
    "Let me hear a tale about {x}.", "Tell me a tale about {x}.", "Please write a very short story about {x}.", "Invent a story about {x}.",
    "How about a story about {x}?", "I am bored. Tell me a story about {x}.", "Now a story about {x}.", "Tell my children a story about {x}.",
]
ASK_ANY = [
    "Tell me a story.", "Tell me a short story.", "Can you tell me a story?", "A story, please.", "I want to hear a story.", "Please tell me a story.",
    "Do you know a story?", "Write a story.", "Write a short story.", "Tell me a bedtime story.", "Make up a story.", "Another story, please.", "Tell me another one.",
    "I am bored. Tell me a story.", "Tell us a tale.", "Could you tell me a very short story?", "Story time!", "Give me a story.",
]


def request(rng, name):
    """A request for a story: (question, story, words that must be in it)."""
    text, asked, key = story(rng, name)
    if rng.random() < 0.15:
        return rng.choice(ASK_ANY), text, []
    return rng.choice(ASK).format(x=asked), text, key
