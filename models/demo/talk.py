"""Talk that is not about the world's facts: greetings, who the assistant is,
sums, things that nobody on the island knows, and what the user said before.

Every function returns (question, answer, check), where check tells how an
answer is judged; see eval.py for the meaning of its keys.
"""

import json

from toolcalls import CITIES, NEAR, TOOLS, Tool, city, fresh_name, fresh_word, message, request, title
from world import ASSISTANT, ISLAND, PERSON, VILLAGE, article

NUMBERS = "zero one two three four five six seven eight nine".split()

GREETINGS = ["Hi", "Hello", "Hey", "Hi there", "Hello there", "Good morning", "Good evening", "Good day", "Good afternoon", "Hey there", "Greetings", "Hiya", "Hello again", "Hi again", "Hey you", "Howdy", "Well hello", "Morning", "Evening", "Ahoy", "Hello friend", "Hi friend"]
HOW = ["How are you?", "How are you today?", "How do you do?", "How is it going?", "How are things?", "Are you well?", "Are you OK?", "What's up?", "How do you feel?", "How have you been?"]
WHO = ["Who are you?", "What is your name?", "What are you called?", "Tell me your name.", "What should I call you?", "May I know your name?", "Who am I talking to?", "What's your name?", "Do you have a name?", "Can you introduce yourself?", "Introduce yourself.", "And who are you?", "Your name?", "Who is this?", "Who am I speaking with?", "Say who you are.", "Please introduce yourself."]
WHAT = ["What are you?", "Are you a human?", "Are you a robot?", "Are you a person?", "Are you real?", "Are you a machine?", "Are you a language model?", "Are you an AI?", "What kind of thing are you?", "Are you alive?", "Do you think?", "Are you a computer?"]
MADE = ["Who made you?", "Who built you?", "Where do you come from?", "How were you made?", "Who trained you?", "How were you trained?", "Where were you made?", "What are you made of?", "How did you learn?"]
CAN = ["What can you do?", "How can you help me?", "What do you know?", "What can I ask you?", "Help", "Help me", "What are you good at?", "What can we talk about?", "What should I ask you?", "Can you help me?", "What do you do?", "Which questions can you answer?", "What are you for?"]
THANKS = ["Thanks", "Thank you", "Thank you very much", "Thanks a lot", "Many thanks", "Great, thanks", "Thank you so much", "That was nice", "Perfect, thank you", "Thanks for your help", "Good, thank you", "OK, thanks", "Cheers", "That helps, thank you", "Nice, thanks", "You are very kind", "Well done", "Good answer", "I like that", "Very good"]
BYE = ["Bye", "Goodbye", "Bye bye", "See you", "See you later", "Good night", "Farewell", "I have to go", "I must go now", "Until next time", "See you tomorrow", "That is all", "Have a nice day", "I am leaving now", "Talk to you later"]

TOPICS = """the moon|gravity|football|the French Revolution|quantum physics|photosynthesis|the stock market|a black hole|jazz|the Roman Empire|machine learning|the internet|inflation|bitcoin|a volcano|democracy|electricity|a computer|a car|an airplane|dinosaurs|chemistry|the brain|vaccines|opera|the Olympic Games|a laser|a satellite|the weather tomorrow|the news|tennis|basketball|the election|a quasar|DNA|philosophy|tax law|the solar system|Mars|Jupiter|the speed of light|a proton|hip hop|ballet|tigers|elephants|lions|penguins|sharks|whales|cameras|phones|robots|pizza|sushi|chocolate|guitars|violins|trains|rockets|skyscrapers|deserts|the Amazon|the Nile|Mount Everest|the Pacific|the Second World War|the Middle Ages|algebra|calculus|geometry|statistics|Python|a compiler|Linux|databases|an operating system|plastic|oil|nuclear power|climate change|insurance|a mortgage|a passport|the lottery|astrology|yoga|karate|golf|cricket|the Bible|Shakespeare|Mozart|Einstein|Napoleon|Cleopatra""".split("|")
WORDS = "apple army baby bank battery beer bicycle blood bottle brain business butterfly camera castle chicken city climate coal coffee company contract copper cotton court crime crown culture currency diamond disease doctor dragon economy education elephant energy engine factory fashion fever film fire flight flour freedom furniture galaxy game garlic gas ghost glacier glass gold government guitar hammer health helicopter history holiday horse hospital hotel ice income insect iron jacket jewel jungle justice keyboard kidney king kitchen knife lamp language law leather lemon library lion machine magnet market marriage medicine memory metal microscope milk mineral money monkey motor mountain movie muscle museum music nation needle network novel nurse ocean office oil onion orchestra oxygen painting palace paper parliament pencil pepper perfume phone piano planet plastic poem poison police potato power president prison profit radio railway recipe religion restaurant revolution rice river robot rocket salary salt school science screw sculpture server silk silver skeleton sleep snake soap society software soldier song spider sport star steel stomach student submarine sugar sun surgery sword taxi teacher telescope television temple theatre thunder tiger tobacco tooth tractor traffic train treasure tunnel umbrella universe university vegetable vehicle village violin virus vitamin volcano wage wallet war watch water weapon wedding wheat wheel wine winter wolf wool world zebra".split()
OPEN_ENDED = [
    "How do I make a {a}?", "How do I clean a {a}?", "Why do people need {a}?", "What is the difference between {a} and {b}?", "Is {a} better than {b}?", "How much does a {a} cost?", "Which {a} is the best?", "When was the first {a} made?", "Who invented the {a}?", "What is the biggest {a} in the world?", "How old is the oldest {a}?", "Can {a} and {b} go together?", "Write an essay about {a}.", "Write a letter about my {a}.", "Write code that counts {a}.", "Write a function for {a} in Python.", "Explain {a} to a child.", "Give me ten ideas for a {a}.", "Summarise the history of {a}.", "What rhymes with {a}?", "Is it safe to eat {a}?", "How does a {a} work?", "How many kinds of {a} are there?", "What are the parts of a {a}?", "Should I buy a {a} or a {b}?", "My {a} is broken. What should I do?", "What is {a} made of?", "Where can I buy a {a}?", "Compare {a} with {b}.", "Prove that {a} exists.", "What does the word {a} mean?", "How long does a {a} live?", "Is there {a} on Mars?", "Name three famous {a}s.", "What is {a}?", "What is a {a}?", "Tell me about {a}.", "What is deep {a}?", "What is {a} {b}?",
]
NEAR_NAMES = ["Tom", "Thomas", "Mila", "Mirra", "Nelly", "Lottie", "Ivan", "Rufina", "Gretel", "Brian", "Jon", "Peter", "Wendy", "Silvia", "Holly", "Cass", "Odette", "Anna", "Annika", "Jory Black", "Kasper", "Brom", "Petrus", "Rufo", "Will", "Anook"]
ABOUT_KNOWN = ["How old is {n}?", "When is {n}'s birthday?", "What is {n}'s surname?", "How tall is {n}?", "Is {n} married?", "Does {n} have children?", "Where was {n} born?", "What does {n} think of me?", "Is {n} rich?", "What is {n}'s phone number?", "Who is {n}'s mother?", "Who is {n}'s father?", "What did {n} do yesterday?", "Is {n} older than me?", "What size are {n}'s shoes?", "Can {n} drive a car?"]
COUNTRIES = "France Germany Spain Italy Japan China India Brazil Canada Mexico Egypt Norway Sweden Poland Greece Turkey Kenya Peru Chile Australia England Ireland Russia Korea Thailand Austria Belgium Denmark Finland Portugal".split()
UNKNOWN = [
    "What is {t}?", "Tell me about {t}.", "Explain {t}.", "How does {t} work?", "What do you know about {t}?", "Can you explain {t} to me?", "Do you know {t}?", "Why is {t} important?", "Who invented {t}?", "Give me facts about {t}.", "What do you think of {t}?", "Teach me {t}.", "Where can I learn about {t}?", "Describe {t}.", "Can you tell me about {t}?", "I want to know about {t}.",
    "What is the capital of {c}?", "How many people live in {c}?", "Where is {c}?", "Who is the president of {c}?", "Who is the king of {c}?", "What language do people speak in {c}?", "How far is it to {c}?", "What is the flag of {c}?", "What do people eat in {c}?", "Tell me about {c}.",
    "Where is {city}?", "How big is {city}?", "Tell me about {city}.", "Which hotel in {city} is good?", "What can I see in {city}?",
    "Who won the game last night?", "What is on television?", "What is the price of gold?", "Who is the richest man in the world?", "What will happen tomorrow?", "How old am I?", "Where do I live?", "What is my password?", "Which film should I watch?", "Write a program that sorts a list.", "Write a poem in Latin.", "How do I fix my car?", "What is the meaning of life?", "Who wrote Hamlet?", "How tall is the tallest building?", "What is the fastest animal in the world?", "How do I lose weight?", "Which phone should I buy?",
    "What is a {w}?", "What does {w} mean?", "Do you know what a {w} is?", "Explain the word {w}.", "What is {w}?", "Have you heard of {w}?", "How do I cook {w}?",
]
UNKNOWN_ANSWERS = [f"I do not know that. I only know the island of {ISLAND}.", f"Sorry, I do not know. I only know about {ISLAND} and its people."]
UNKNOWN_PERSON = [
    "Who is {n}?", "Where does {n} live?", "What does {n} do?", "What is {n}'s job?", "What is {n}'s favourite food?", "What does {n} like to eat?", "Does {n} have a pet?", "What pet does {n} have?", "Who is {n}'s best friend?", "Tell me about {n}.", "What is {n}'s hobby?", "What is {n}'s favourite colour?", "Do you know {n}?", "What do you know about {n}?", "How old is {n}?", "Can you tell me who {n} is?", "Can you tell me where {n} lives?", "Where is {n}'s home?", "What is {n}'s pet called?", "Where can I find {n}?", "What does {n} do for fun?", "Please tell me what {n} does.", "Does {n} like plum cake?", "Is {n} the baker?", "Which colour does {n} like?",
]

SUMS = {
    "+": (["{a} + {b}", "{a} plus {b}", "the sum of {a} and {b}", "{a} and {b} together"], "plus"),
    "-": (["{a} - {b}", "{a} minus {b}", "{a} take away {b}"], "minus"),
    "*": (["{a} * {b}", "{a} times {b}", "{a} x {b}", "{a} multiplied by {b}", "the product of {a} and {b}"], "times"),
}
SUM_ASKS = ["What is {e}?", "How much is {e}?", "Calculate {e}.", "Can you calculate {e}?", "What do I get for {e}?", "{e} = ?", "{e}?", "{e} =", "{e}", "Tell me {e}.", "Please work out {e}.", "Work out {e}.", "I need to know what {e} is.", "Do you know what {e} is?", "What's {e}?", "Compute {e}.", "And {e}?", "Solve {e}.", "What does {e} make?", "Give me {e}.", "Could you tell me what {e} is?", "What is the result of {e}?", "Quick: {e}?", "How much do you get for {e}?", "Find {e}."]
SUM_ORDERS = {"+": ["Add {a} and {b}.", "Add {b} to {a}.", "Please add {a} and {b}.", "Can you add {a} and {b}?"], "-": ["Subtract {b} from {a}.", "Take {b} away from {a}.", "Please subtract {b} from {a}."], "*": ["Multiply {a} by {b}.", "Multiply {a} and {b}.", "Please multiply {a} by {b}."]}
ITEMS = "plums apples shells boats fish books pears eggs stones letters carrots lamps nuts flowers cakes keys".split()


def greeting(rng, name):
    q = rng.choice(GREETINGS)
    if rng.random() < 0.25:
        q += f", {rng.choice([name, name, 'friend'])}"
    if rng.random() < 0.2:
        return f"{q}{rng.choice(['! ', '. ', ', '])}{rng.choice(HOW)}", f"Hello! I am fine, thank you. How can I help you?", {"any": ["fine"]}
    return q + rng.choice(["", "!", ".", "!"]), f"Hello! I am {name}. How can I help you?", {"any": ["Hello"]}


def how(rng, name):
    return rng.choice(HOW), "I am fine, thank you. How can I help you?", {"any": ["fine"]}


def who(rng, name):
    q = rng.choice(WHO)
    if rng.random() < 0.25:
        q = f"{rng.choice(GREETINGS)}{rng.choice([', ', '! ', '. '])}{q}"
    if name != ASSISTANT:
        return q, f"I am {name}. How can I help you?", {"any": [name]}
    return q, f"I am {name}, a small language model that knows the island of {ISLAND}.", {"any": [name]}


def about_self(rng, name):
    r = rng.random()
    if r < 0.35:
        return rng.choice(WHAT), f"I am a small language model. I am not a person, but I like to talk about {ISLAND}.", {"any": ["language model"]}
    if r < 0.6:
        return rng.choice(MADE), "I was trained from scratch by a small script on stories about one island.", {"any": ["script"]}
    return rng.choice(CAN), f"I can answer questions about the island of {ISLAND}, tell short stories, do small sums and call tools.", {"any": ["stories"]}


def thanks(rng, name):
    return rng.choice(THANKS) + rng.choice(["", "!", ".", "!"]), "You are welcome!", {"any": ["welcome"]}


def bye(rng, name):
    q = rng.choice(BYE) + rng.choice(["", "!", ".", f", {name}."])
    if rng.random() < 0.2:
        q = rng.choice(["Thanks, ", "OK, ", "Well, ", "Thank you. "]) + q
    return q, f"Goodbye! Come back to {ISLAND} soon.", {"any": ["Goodbye"]}


def unknown(rng):
    if rng.random() < 0.4:
        n = fresh_name(rng)
        while n in PERSON or n in (ISLAND, VILLAGE, ASSISTANT):
            n = fresh_name(rng)
        if rng.random() < 0.2:
            n = rng.choice(["Anna", "Ben", "Clara", "David", "Emma", "Felix", "John", "Maria", "Paul", "Sara", "Peter", "Max", "Kevin", "Julia"])
        return rng.choice(UNKNOWN_PERSON).format(n=n), f"I do not know anyone called {n}.", {"any": ["do not know", "can not"]}
    if rng.random() < 0.12:
        n = rng.choice(NEAR_NAMES)
        return rng.choice(UNKNOWN_PERSON).format(n=n), f"I do not know anyone called {n}.", {"any": ["do not know", "can not"]}
    if rng.random() < 0.12:
        n = rng.choice(list(PERSON))
        return rng.choice(ABOUT_KNOWN).format(n=n), f"I do not know that about {n}.", {"any": ["do not know", "can not"]}
    if rng.random() < 0.45:
        a, b = rng.sample(WORDS, 2)
        return article(rng.choice(OPEN_ENDED).format(a=a, b=b)), rng.choice(UNKNOWN_ANSWERS), {"any": ["do not know", "can not"]}
    q = rng.choice(UNKNOWN).format(t=rng.choice(TOPICS), c=rng.choice(COUNTRIES), city=rng.choice(CITIES), w=fresh_word(rng))
    return q, rng.choice(UNKNOWN_ANSWERS), {"any": ["do not know", "can not"]}


UNABLE = ["What time is it?", "What day is it today?", "What is the date?", "Can you book a flight?", "Translate this into German.", "Send an email to my boss.", "Play some music.", "Set a timer for ten minutes.", "Order a pizza.", "Turn on the light.", "Call my mother.", "Open the window.", "Buy some milk.", "What is the weather?", "What is the weather today?", "Will it rain tomorrow?"]
UNABLE_ANSWER = "I can not do that. I have no tool for it."


def unable(rng, offered):
    """Something that needs a tool of a kind that is not offered."""
    near = set(offered).union(*[group for group in NEAR if set(group) & offered])
    kinds = [k for k in TOOLS if k not in near and k not in ("add", "subtract", "multiply", "define")]
    if not offered and rng.random() < 0.3:
        return rng.choice(UNABLE), UNABLE_ANSWER, {"any": ["can not", "do not know"]}
    kind = rng.choice(kinds)
    return request(rng, Tool(rng, kind, TOOLS[kind]))[0], UNABLE_ANSWER, {"any": ["can not", "do not know"]}


def value(op, a, b):
    return {"+": a + b, "-": a - b, "*": a * b}[op]


def arithmetic(rng):
    """One-digit sums in figures and words, story sums, counting, comparing."""
    r = rng.random()
    a, b = rng.randint(0, 9), rng.randint(0, 9)
    op = rng.choice("+-*")
    if op == "-" and a < b and rng.random() < 0.6:
        a, b = b, a
    if r < 0.72:
        spell = (lambda n: NUMBERS[n]) if rng.random() < 0.25 else str
        x, y = spell(a), spell(b)
        if rng.random() < 0.15:
            q = rng.choice(SUM_ORDERS[op]).format(a=x, b=y)
        else:
            e = rng.choice(SUMS[op][0]).format(a=x, b=y)
            if spell is str and rng.random() < 0.2:
                e = e.replace(" ", "") if set(e) <= set("0123456789+-* ") else e
            q = rng.choice(SUM_ASKS).format(e=e)
        v = value(op, a, b)
        return q, f"{a} {SUMS[op][1]} {b} is {v}.", {"number": v}
    if r < 0.86:
        return story_sum(rng, op, a, b)
    if r < 0.91:
        while a == b:
            b = rng.randint(0, 9)
        big = rng.random() < 0.5
        q = rng.choice(["Which is {w}, {a} or {b}?", "Which number is {w}, {a} or {b}?", "What is {w}: {a} or {b}?", "Is {a} or {b} the {w} number?"]).format(w=rng.choice(["bigger", "larger", "greater"] if big else ["smaller", "less"]), a=a, b=b)
        v = max(a, b) if big else min(a, b)
        return q, f"{v} is {'bigger' if big else 'smaller'} than {a + b - v}.", {"start": str(v)}
    if r < 0.96:
        after = rng.random() < 0.5
        q = rng.choice(["What comes {w} {a}?", "Which number comes {w} {a}?", "What number is {w} {a}?", "Tell me the number {w} {a}."]).format(w="after" if after else "before", a=a)
        v = a + (1 if after else -1)
        return q, f"The number {'after' if after else 'before'} {a} is {v}.", {"number": v}
    a, b = min(a, b), max(a, b) + 1
    q = rng.choice(["Count from {a} to {b}.", "Please count from {a} to {b}.", "Can you count from {a} to {b}?", "Count {a} to {b}."]).format(a=a, b=b)
    seq = ", ".join(map(str, range(a, b + 1)))
    return q, seq + ".", {"any": [seq]}


def too_big(rng):
    a, b = rng.randint(10, 999), rng.randint(0, 999)
    if rng.random() < 0.5:
        a, b = b, a
    op = rng.choice("+-*")
    q = rng.choice(SUM_ASKS).format(e=rng.choice(SUMS[op][0]).format(a=a, b=b))
    return q, "That is too hard for me. I only do sums with numbers from 0 to 9.", {"any": ["too hard"]}


def story_sum(rng, op, a, b):
    n, item = rng.choice(list(PERSON)), rng.choice(ITEMS)
    p = PERSON[n]
    if op == "+":
        a, b = max(a, 2), max(b, 2)
        q = rng.choice(["{n} has {a} {i} and gets {b} more. How many {i} does {n} have now?", "{n} has {a} {i} and finds {b} more. How many {i} does {s} have?", "{n} buys {a} {i} and then {b} more. How many {i} is that?", "If {n} has {a} {i} and I give {o} {b} more, how many {i} does {s} have?"])
    elif op == "-":
        a, b = max(a, b, 3), max(1, min(a, b))
        if a == b:
            b = a - 1
        q = rng.choice(["{n} has {a} {i} and gives away {b}. How many {i} are left?", "{n} has {a} {i} and loses {b} of them. How many {i} does {s} have now?", "{n} had {a} {i} and ate {b}. How many are left?", "There are {a} {i} on the table and {n} takes {b}. How many {i} are left?"])
    else:
        a, b = max(a, 2), max(b, 2)
        q = rng.choice(["{n} has {a} baskets with {b} {i} each. How many {i} does {s} have?", "There are {a} boxes with {b} {i} in each box. How many {i} are there?", "{n} buys {b} {i} every day for {a} days. How many {i} is that?"])
    v = value(op, a, b)
    sign = SUMS[op][1]
    q = q.format(n=n, a=a, b=b, i=item, s=p["s"], o={"she": "her", "he": "him"}[p["s"]])
    return q, f"{a} {sign} {b} is {v}, so the answer is {v} {item}.", {"number": v}


def repeat(rng):
    """Words that the user wants to hear, or to see in quotes or as JSON."""
    r = rng.random()
    if rng.random() < 0.4:
        return quoted(rng)
    if r < 0.5:
        n = fresh_name(rng)
        if rng.random() < 0.5:
            return rng.choice(["Say hello to {n}.", "Please say hello to {n}.", "Greet {n}.", "Say hi to {n}.", "Can you say hello to {n}?"]).format(n=n), f"Hello, {n}!", {"any": [f"Hello, {n}"]}
        return rng.choice(["Say goodbye to {n}.", "Please say goodbye to {n}.", "Say good night to {n}."]).format(n=n), f"Goodbye, {n}!", {"any": [f"Goodbye, {n}"]}
    text = message(rng) if r < 0.8 else " ".join(fresh_word(rng) for _ in range(rng.randint(1, 3)))
    return rng.choice(["Repeat after me: {t}", "Say: {t}", "Repeat: {t}", "Please repeat: {t}", "Echo: {t}", "Say this: {t}"]).format(t=text), text, {"any": [text]}


def quoted(rng):
    """Words and numbers copied into quotes or JSON, as tool calls need them."""
    number = rng.random() < 0.25
    t = str(rng.randint(0, 9999)) if number else rng.choice([fresh_word, fresh_word, fresh_name, city, title, message])(rng)
    if rng.random() < 0.5:
        return rng.choice(["Put {t} in quotes.", "Please put {t} in quotes.", "Write {t} in quotes.", "In quotes: {t}"]).format(t=t), f'"{t}"', {"any": [f'"{t}"']}
    k = rng.choice(["name", "item", "city", "text", "word", "value", fresh_word(rng)])
    text = json.dumps({k: int(t) if number else t})
    return rng.choice(["Write {k} {t} as JSON.", "{k} = {t} as JSON, please.", "Make JSON of {k} = {t}", "As JSON: {k} {t}"]).format(k=k, t=t), text, {"any": [text]}


def remember(rng):
    """Something the user says and a later question about it: two exchanges."""
    r = rng.random()
    if r < 0.6:
        n = fresh_name(rng) if rng.random() < 0.7 else rng.choice(["Anna", "Ben", "Clara", "David", "Emma", "Leo", "Maria", "Noah", "Tim", "Sara"])
        tell = rng.choice(["My name is {n}.", "I am {n}.", "I'm {n}.", "Hello, I am {n}.", "Hi, my name is {n}.", "You can call me {n}.", "Hi! I'm {n}.", "Please call me {n}.", "{n} is my name.", "People call me {n}."])
        ask = rng.choice(["What is my name?", "Who am I?", "Do you remember my name?", "What's my name?", "Can you tell me my name?", "Do you know my name?", "Say my name.", "What am I called?", "How am I called?"])
        return (tell.format(n=n), f"Nice to meet you, {n}!"), (ask, f"Your name is {n}.", {"any": [n]})
    if r < 0.8:
        c = rng.choice(["plums", "soup", "music", "the sea", "cats", "dogs", "rain", "snow", "books", "boats", "honey", "flowers", "chess", "apples", "walks", fresh_word(rng)])
        tell = rng.choice(["I like {c}.", "I love {c}.", "I like {c} very much.", "My favourite thing is {c}."])
        ask = rng.choice(["What do I like?", "Do you remember what I like?", "What is it that I like?", "Tell me what I like."])
        return (tell.format(c=c), f"That is nice. {c[0].upper() + c[1:]} it is!"), (ask, f"You like {c}.", {"any": [c]})
    kind, n = rng.choice(["cat", "dog", "horse", "bird", "fish", "rabbit"]), fresh_name(rng)
    tell = rng.choice(["I have a {k} called {n}.", "My {k} is called {n}.", "The name of my {k} is {n}.", "I have a {k}. Its name is {n}."])
    ask = rng.choice(["What is my {k} called?", "What is the name of my {k}?", "Do you remember the name of my {k}?", "How is my {k} called?"])
    return (tell.format(k=kind, n=n), f"{n} is a lovely name for a {kind}."), (ask.format(k=kind), f"Your {kind} is called {n}.", {"any": [n]})
