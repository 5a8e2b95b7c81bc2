"""Tools, requests that need them, their results and the answers to those.

Names, descriptions and parameter names of every tool vary, and values are
copied from the request, so that a model has to read the tools it is offered.
"""

import json

FIRST = "Anna Ben Clara David Emma Felix Grace Henry Ida Jack Kate Leo Maria Noah Olga Paul Ruth Sam Tina Victor Alice Bob Carol Dan Eve Frank Gina Hugo Iris John Lena Max Nina Oscar Peter Rosa Sara Tim Uma Vera".split()
CITIES = "Paris London Berlin Rome Madrid Tokyo Oslo Vienna Lisbon Prague Dublin Cairo Boston Chicago Sydney Athens Helsinki Warsaw Zurich Munich Hamburg Toronto Mumbai Lima Delhi Seoul Kyoto Geneva Milan Naples".split()
ADJ = "blue golden silent old bright lost broken red summer winter little wild gentle empty secret lonely silver green slow happy".split()
NOUN = "river lantern road moon garden window song train mountain bridge star letter rain heart mirror island forest night bird dream".split()
VERBS = "open read write find bring watch clean paint sell carry mend count hide wash move fold send draw pack check".split()
THINGS = "milk bread apples rice coffee tea eggs butter salt soap candles paper pens shoes honey cheese onions".split(" ")
LANGUAGES = "French German Spanish Italian Dutch Polish Greek Latin Swedish Finnish Danish Turkish".split()
ROOMS = "kitchen bedroom hall garage bathroom office attic cellar garden study".split()
TOPICS = "sports music science football space trains cooking films history gardens ships chess books bees art".split()
WEATHER = "sunny rainy cloudy windy snowy foggy stormy clear cold warm".split()
CURRENCIES = "euros dollars pounds yen shells crowns francs pesos".split()
ONSETS = "b c d f g h j k l m n p q r s t v w x y z br cr dr fl gl kr pl pr sh sk sl sp st th tr vr zh".split()
CODAS = ["", "", "", "n", "r", "l", "s", "k", "m", "t", "x", "th", "nd", "rk", "ss", "v", "p", "g", "d"]


def fresh_word(rng):
    """A word that nobody has seen, of one to three syllables."""
    if rng.random() < 0.08:
        return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 7)))
    return "".join(rng.choice(ONSETS) + rng.choice("aeiou") + rng.choice(CODAS) for _ in range(rng.choice([1, 2, 2, 2, 3])))


def fresh_name(rng):
    return fresh_word(rng).capitalize()


def person(rng):
    return rng.choice(FIRST) if rng.random() < 0.3 else fresh_name(rng)


def city(rng):
    r = rng.random()
    if r < 0.35:
        return rng.choice(CITIES)
    if r < 0.85:
        return fresh_name(rng)
    return rng.choice(["New", "Port", "Saint", "North", "East", "Old", "San", "Lake"]) + " " + fresh_name(rng)


def title(rng):
    words = rng.choice([[rng.choice(ADJ), rng.choice(NOUN)], [rng.choice(NOUN)], [fresh_word(rng)], [rng.choice(ADJ), fresh_word(rng)], ["the", rng.choice(NOUN), "of", fresh_word(rng)], [rng.choice(VERBS), "the", rng.choice(NOUN)]])
    return " ".join(w.capitalize() for w in words)


def message(rng):
    """Free text that is copied into an argument."""
    return rng.choice([
        lambda: f"I will be {rng.choice(['late', 'early', 'home soon', 'there at ' + clock(rng), 'busy today'])}",
        lambda: f"please {rng.choice(VERBS)} the {rng.choice(NOUN)}",
        lambda: f"see you at {clock(rng)}",
        lambda: f"the {rng.choice(NOUN)} is {rng.choice(ADJ)}",
        lambda: rng.choice(["hello", "good night", "happy birthday", "thank you", "well done", "see you tomorrow", "call me back", "dinner is ready", "good luck"]),
        lambda: f"meet me in {city(rng)}",
        lambda: f"we need {rng.choice(THINGS)}",
        lambda: f"{rng.choice(VERBS)} {fresh_word(rng)} and {rng.choice(VERBS)} {fresh_word(rng)}",
        lambda: f"my {rng.choice(NOUN)} is called {fresh_name(rng)}",
    ])()


def clock(rng):
    return f"{rng.randint(0, 23)}:{rng.choice(['00', '15', '30', '45', f'{rng.randint(0, 59):02d}'])}"


def number(rng):
    return rng.choice([rng.randint(0, 9), rng.randint(10, 99), rng.randint(10, 99), rng.randint(100, 999), rng.randint(1000, 9999)])


def small(rng):
    return rng.randint(2, 90)


def filename(rng):
    return rng.choice([fresh_word(rng), rng.choice(NOUN), rng.choice(ADJ) + "_" + rng.choice(NOUN)]) + rng.choice([".txt", ".md", ".csv", ".json", ".py"])


def pick(options):
    return lambda rng: rng.choice(options)


# Each tool: names, descriptions, parameters (key: names, type, meaning, value
# maker, enum), requests, result fields, answers.
def P(names, kind, meaning, value, enum=None):
    return dict(names=names.split(), kind=kind, meaning=meaning, value=value, enum=enum)


TOOLS = {
    "weather": dict(
        names=["get_weather", "weather", "get_current_weather", "lookup_weather", "weather_report", "check_weather"],
        says=["Get the weather of a city.", "Returns the current weather.", "Weather report for a place.", "Look up the weather now."],
        params=dict(city=P("city location place town", "string", "Name of the city", city)),
        asks=["What is the weather in {city}?", "How is the weather in {city}?", "What's the weather like in {city} today?", "Is it raining in {city}?", "Tell me the weather in {city}.", "Do I need an umbrella in {city}?", "How warm is it in {city}?", "Weather in {city}", "Is it cold in {city} right now?", "Will I need a coat in {city}?", "Please check the weather in {city}."],
        result=dict(condition=pick(WEATHER), temperature=lambda r: r.randint(-9, 35)),
        answers=["It is {condition} in {city} with {temperature} degrees."]),
    "forecast": dict(
        names=["get_forecast", "forecast", "weather_forecast", "daily_forecast"],
        says=["Weather forecast for some days.", "Get the forecast of a city."],
        params=dict(city=P("city location place", "string", "Name of the city", city), days=P("days num_days count", "integer", "How many days", lambda r: r.randint(2, 14))),
        asks=["What will the weather be in {city} for the next {days} days?", "Give me the forecast for {city} for {days} days.", "Show a {days} day forecast for {city}.", "I need the forecast of {city} for the next {days} days."],
        result=dict(summary=pick(WEATHER)), answers=["The forecast for {city} is {summary}."]),
    "time": dict(
        names=["get_time", "current_time", "time_in", "world_clock", "get_local_time"],
        says=["Get the time at a place.", "Current local time of a city.", "Tells the time."],
        params=dict(place=P("place city location timezone", "string", "Where", city)),
        asks=["What time is it in {place}?", "What is the time in {place}?", "Tell me the time in {place}.", "How late is it in {place} now?", "Time in {place}, please.", "Do you know what time it is in {place}?", "Give me the local time of {place}."],
        result=dict(time=clock), answers=["It is {time} in {place}."]),
    "add": dict(
        names=["add", "sum", "add_numbers", "plus", "calculator_add"], says=["Add two numbers.", "Returns the sum of two numbers."],
        params=dict(a=P("a x first", "integer", "First number", number), b=P("b y second", "integer", "Second number", number)),
        asks=["What is {a} plus {b}?", "What is {a} + {b}?", "Add {a} and {b}.", "How much is {a} plus {b}?", "Calculate {a} + {b}.", "Can you add {a} and {b}?", "{a} + {b} = ?", "Sum of {a} and {b}?"],
        result=dict(result=number), answers=["{a} plus {b} is {result}."]),
    "subtract": dict(
        names=["subtract", "minus", "difference"], says=["Subtract the second number from the first.", "Difference of two numbers."],
        params=dict(a=P("a x first", "integer", "First number", number), b=P("b y second", "integer", "Second number", number)),
        asks=["What is {a} minus {b}?", "What is {a} - {b}?", "Calculate {a} - {b}.", "How much is {a} minus {b}?"],
        result=dict(result=number), answers=["{a} minus {b} is {result}."]),
    "multiply": dict(
        names=["multiply", "times", "product", "mul"], says=["Multiply two numbers.", "Product of two numbers."],
        params=dict(a=P("a x first", "integer", "First number", number), b=P("b y second", "integer", "Second number", number)),
        asks=["What is {a} times {b}?", "What is {a} * {b}?", "Multiply {a} by {b}.", "Multiply {a} and {b}.", "How much is {a} times {b}?"],
        result=dict(result=number), answers=["{a} times {b} is {result}."]),
    "music": dict(
        names=["play_music", "play_song", "play", "music_player", "start_song"], says=["Play a song.", "Starts music.", "Play music by title."],
        params=dict(song=P("song title track name", "string", "Title of the song", title)),
        asks=["Play {song}.", "Please play {song}.", "I want to hear {song}.", "Play the song {song}.", "Can you play {song}?", "Put on {song}.", "Start the song {song}, please."],
        result=dict(status=pick(["playing", "started", "ok"])), answers=["Now playing {song}."]),
    "message": dict(
        names=["send_message", "send_text", "message", "text_person", "send_sms"], says=["Send a message to a person.", "Sends a text message."],
        params=dict(to=P("to recipient person contact", "string", "Who gets it", person), text=P("text message body content", "string", "What to say", message)),
        asks=["Send {to} a message saying {text}.", "Tell {to}: {text}", "Send a message to {to}: {text}", "Text {to} that {text}.", "Write to {to}: {text}", "Message {to} saying {text}.", "Please send {to} the text \"{text}\".", "Let {to} know that {text}."],
        result=dict(status=pick(["sent", "delivered", "ok"])), answers=["I sent your message to {to}."]),
    "email": dict(
        names=["send_email", "email", "write_mail"], says=["Send an email.", "Writes a mail with a subject."],
        params=dict(to=P("to address recipient", "string", "Who gets it", person), subject=P("subject title", "string", "Subject line", title), body=P("body text content", "string", "The text", message)),
        asks=["Send an email to {to} with the subject {subject} saying {body}.", "Email {to}, subject {subject}: {body}", "Write a mail to {to} about {subject}: {body}"],
        result=dict(status=pick(["sent", "ok"])), answers=["I sent the mail to {to}."]),
    "timer": dict(
        names=["set_timer", "start_timer", "timer", "countdown"], says=["Start a timer.", "Sets a timer in minutes."],
        params=dict(minutes=P("minutes duration mins", "integer", "Minutes", small)),
        asks=["Set a timer for {minutes} minutes.", "Start a timer of {minutes} minutes.", "Timer {minutes} minutes", "Wake me in {minutes} minutes.", "Remind me in {minutes} minutes.", "Please set a {minutes} minute timer."],
        result=dict(status=pick(["started", "ok", "running"])), answers=["The timer is set for {minutes} minutes."]),
    "alarm": dict(
        names=["set_alarm", "alarm", "create_alarm", "wake_up"], says=["Set an alarm.", "Wakes the user at a time."],
        params=dict(time=P("time at when", "string", "Time of day", clock)),
        asks=["Set an alarm for {time}.", "Wake me up at {time}.", "I need an alarm at {time}.", "Please wake me at {time}.", "Alarm at {time}, please."],
        result=dict(status=pick(["set", "ok"])), answers=["The alarm is set for {time}."]),
    "light": dict(
        names=["set_light", "switch_light", "light", "control_light"], says=["Switch a light on or off.", "Controls the lights."],
        params=dict(room=P("room place where", "string", "Which room", pick(ROOMS)), state=P("state mode", "string", "on or off", pick(["on", "off"]), ["on", "off"])),
        asks=["Turn {state} the light in the {room}.", "Switch {state} the {room} light.", "Turn the {room} light {state}.", "Please switch the light in the {room} {state}.", "Light {state} in the {room}."],
        result=dict(status=pick(["ok", "done"])), answers=["The light in the {room} is now {state}."]),
    "heating": dict(
        names=["set_temperature", "heat", "thermostat"], says=["Set the temperature of a room."],
        params=dict(room=P("room place", "string", "Which room", pick(ROOMS)), degrees=P("degrees temperature value", "integer", "Degrees", lambda r: r.randint(10, 30))),
        asks=["Set the {room} to {degrees} degrees.", "Heat the {room} to {degrees} degrees.", "Make it {degrees} degrees in the {room}.", "I want {degrees} degrees in the {room}."],
        result=dict(status=pick(["ok", "done"])), answers=["The {room} is set to {degrees} degrees."]),
    "translate": dict(
        names=["translate", "translate_text", "translator"], says=["Translate a text.", "Translates words into a language."],
        params=dict(text=P("text sentence words", "string", "What to translate", message), language=P("language target to_language lang", "string", "Language", pick(LANGUAGES))),
        asks=["Translate \"{text}\" into {language}.", "How do you say \"{text}\" in {language}?", "Please translate \"{text}\" to {language}.", "What is \"{text}\" in {language}?"],
        result=dict(translation=lambda r: " ".join(fresh_word(r) for _ in range(r.randint(1, 3)))), answers=["In {language} that is \"{translation}\"."]),
    "search": dict(
        names=["search", "web_search", "search_web", "find_online", "lookup"], says=["Search the web.", "Finds pages about a query."],
        params=dict(query=P("query q terms keywords", "string", "What to search for", lambda r: rng_query(r))),
        asks=["Search for {query}.", "Search the web for {query}.", "Look up {query} online.", "Find {query} on the web.", "Please search {query}.", "Can you look up {query}?"],
        result=dict(top=title), answers=["The first result for {query} is \"{top}\"."]),
    "note": dict(
        names=["create_note", "add_note", "write_note", "save_note"], says=["Save a note.", "Writes a note."],
        params=dict(text=P("text note content", "string", "The note", message)),
        asks=["Make a note: {text}", "Note that {text}.", "Write down: {text}", "Save a note saying {text}.", "Add a note: {text}"],
        result=dict(status=pick(["saved", "ok"])), answers=["I saved the note."]),
    "call": dict(
        names=["call", "phone", "make_call", "call_person"], says=["Call a person.", "Makes a phone call."],
        params=dict(name=P("name person contact who", "string", "Who to call", person)),
        asks=["Call {name}.", "Please call {name}.", "Phone {name}.", "I want to talk to {name} on the phone.", "Can you call {name} for me?", "Give {name} a call."],
        result=dict(status=pick(["calling", "connected", "ringing"])), answers=["I am calling {name}."]),
    "table": dict(
        names=["book_table", "reserve_table", "reservation"], says=["Book a table in a restaurant."],
        params=dict(restaurant=P("restaurant place name", "string", "Which restaurant", title), people=P("people guests seats", "integer", "How many people", lambda r: r.randint(2, 12)), time=P("time at", "string", "When", clock)),
        asks=["Book a table at {restaurant} for {people} people at {time}.", "Reserve a table for {people} at {restaurant} at {time}.", "I need a table at {restaurant} for {people} guests at {time}."],
        result=dict(status=pick(["booked", "confirmed", "ok"])), answers=["Your table at {restaurant} is booked for {time}."]),
    "convert": dict(
        names=["convert_currency", "exchange", "convert"], says=["Convert money.", "Exchange an amount of money."],
        params=dict(amount=P("amount value", "integer", "How much", number), source=P("from source from_currency", "string", "Currency", pick(CURRENCIES[:4])), target=P("to target to_currency", "string", "Currency", pick(CURRENCIES[4:]))),
        asks=["Convert {amount} {source} to {target}.", "How much is {amount} {source} in {target}?", "Change {amount} {source} into {target}.", "What are {amount} {source} in {target}?"],
        result=dict(result=number), answers=["{amount} {source} are {result} {target}."]),
    "news": dict(
        names=["get_news", "news", "headlines", "latest_news"], says=["Get the news about a topic.", "Latest headlines."],
        params=dict(topic=P("topic subject about", "string", "Topic", pick(TOPICS))),
        asks=["What is the news about {topic}?", "Give me the latest news on {topic}.", "Any news about {topic}?", "Show me {topic} news.", "What are the headlines about {topic}?"],
        result=dict(headline=title), answers=["The latest headline is \"{headline}\"."]),
    "price": dict(
        names=["get_price", "price", "price_of", "check_price"], says=["Get the price of an item.", "Tells what something costs."],
        params=dict(item=P("item product name", "string", "What to buy", lambda r: r.choice([r.choice(NOUN), fresh_word(r)]))),
        asks=["What does a {item} cost?", "How much is a {item}?", "What is the price of a {item}?", "Check the price of a {item}.", "Tell me the price of the {item}."],
        result=dict(price=small), answers=["A {item} costs {price}."]),
    "file": dict(
        names=["open_file", "read_file", "show_file"], says=["Open a file.", "Reads a file."],
        params=dict(path=P("path file filename", "string", "Name of the file", filename)),
        asks=["Open {path}.", "Open the file {path}.", "Show me {path}.", "Read {path}, please.", "What is in {path}?"],
        result=dict(content=message), answers=["The file {path} says: {content}"]),
    "delete": dict(
        names=["delete_file", "remove_file", "erase"], says=["Delete a file.", "Removes a file."],
        params=dict(path=P("path file filename", "string", "Name of the file", filename)),
        asks=["Delete {path}.", "Remove the file {path}.", "Please delete {path}.", "Erase {path}."],
        result=dict(status=pick(["deleted", "ok"])), answers=["I deleted {path}."]),
    "route": dict(
        names=["find_route", "get_directions", "route", "navigate"], says=["Find the way between two places.", "Directions from one place to another."],
        params=dict(start=P("start from origin", "string", "Where to start", city), end=P("end to destination", "string", "Where to go", city)),
        asks=["How do I get from {start} to {end}?", "Find a route from {start} to {end}.", "Show me the way from {start} to {end}.", "I want to go from {start} to {end}.", "Directions from {start} to {end}, please."],
        result=dict(minutes=small), answers=["The way from {start} to {end} takes {minutes} minutes."]),
    "dice": dict(
        names=["roll_dice", "roll", "dice"], says=["Roll a die.", "Throws a die with some sides."],
        params=dict(sides=P("sides faces n", "integer", "Number of sides", lambda r: r.choice([4, 6, 8, 10, 12, 20, 100]))),
        asks=["Roll a die with {sides} sides.", "Roll a {sides} sided die.", "Throw a die with {sides} sides.", "Please roll a d{sides}."],
        result=dict(result=lambda r: r.randint(1, 20)), answers=["The die shows {result}."]),
    "random": dict(
        names=["random_number", "pick_number", "random_between"], says=["Pick a random number.", "Random number between two numbers."],
        params=dict(low=P("min low from", "integer", "Smallest", lambda r: r.randint(0, 9)), high=P("max high to", "integer", "Largest", lambda r: r.randint(10, 999))),
        asks=["Give me a random number between {low} and {high}.", "Pick a number from {low} to {high}.", "Random number between {low} and {high}, please.", "Choose a number between {low} and {high}."],
        result=dict(result=small), answers=["Your number is {result}."]),
    "shopping": dict(
        names=["add_to_list", "shopping_list", "add_item", "list_add"], says=["Put an item on a list.", "Add to the shopping list."],
        params=dict(item=P("item thing name", "string", "What to add", lambda r: r.choice(THINGS + [fresh_word(r)])), count=P("count amount quantity", "integer", "How many", lambda r: r.randint(1, 40))),
        asks=["Put {count} {item} on the shopping list.", "Add {count} {item} to my list.", "I need {count} {item}, put it on the list.", "Add {item} to the list, {count} of them."],
        result=dict(status=pick(["added", "ok"])), answers=["I put {count} {item} on the list."]),
    "define": dict(
        names=["define", "get_definition", "dictionary", "lookup_word"], says=["Explain a word.", "Get the definition of a word."],
        params=dict(word=P("word term", "string", "Word to explain", fresh_word)),
        asks=["What does {word} mean?", "Define {word}.", "What is the meaning of {word}?", "Look up the word {word}.", "Explain the word {word}."],
        result=dict(meaning=lambda r: f"a {r.choice(ADJ)} {r.choice(NOUN)}"), answers=["The word {word} means {meaning}."]),
    "date": dict(
        names=["get_date", "today", "current_date"], says=["Get the date of today.", "Tells which day it is."], params={},
        asks=["What day is it?", "What is the date today?", "Which date do we have today?", "Tell me the date.", "What's today's date?"],
        result=dict(date=lambda r: f"{r.randint(1, 28)} {r.choice(['March', 'May', 'June', 'July', 'August', 'October'])}"), answers=["Today is {date}."]),
    "list_files": dict(
        names=["list_files", "ls", "show_files"], says=["List all files.", "Shows which files there are."], params={},
        asks=["Which files are there?", "List my files.", "Show me all files.", "What files do I have?", "List all files, please."],
        result=dict(files=filename), answers=["There is one file: {files}"]),
}
# Kinds that are easily taken for each other: offered side by side more often,
# and one never stands for a missing other.
NEAR = [("weather", "forecast"), ("message", "email", "call"), ("add", "subtract", "multiply"), ("file", "delete", "list_files"), ("alarm", "timer"), ("search", "define", "news", "price")]


def rng_query(rng):
    return rng.choice([f"{rng.choice(ADJ)} {rng.choice(NOUN)}", fresh_word(rng), f"{fresh_word(rng)} {rng.choice(NOUN)}", f"how to {rng.choice(VERBS)} a {rng.choice(NOUN)}", f"{rng.choice(TOPICS)} in {city(rng)}"])


def made_up(rng):
    """A tool of no known kind; its use follows from its schema alone."""
    verb, noun = rng.choice(VERBS), rng.choice([rng.choice(NOUN), fresh_word(rng)])
    keys = rng.sample(["name", "item", "value", "id", "target", "size", "colour", "owner", "level", "label", fresh_word(rng)], rng.choice([1, 1, 2]))
    params = {k: P(k, "integer", f"The {k}", number) if k in ("value", "id", "size", "level") else P(k, "string", f"The {k}", lambda r: r.choice([fresh_word(r), person(r), r.choice(NOUN)])) for k in keys}
    name = f"{verb}_{noun}"
    given = " and ".join(rng.choice(["{k} {{{k}}}", "the {k} {{{k}}}", "{k} = {{{k}}}"]).format(k=k) for k in keys)
    asks = [f"{verb.capitalize()} the {noun} with {given}.", f"Please {verb} a {noun} with {given}.", f"Use {name} with {given}.", f"Call {name} with {given}.", f"I want to {verb} the {noun} with {given}."]
    return dict(names=[name], says=[f"{verb.capitalize()} a {noun}.", f"Can {verb} the {noun}."], params=params, asks=asks, result=dict(status=pick(["ok", "done"])), answers=["Done."])


# Parameters that a request may leave out, by kind of tool: names, type or
# values, meaning, how a request says it.
EXTRAS = {
    "weather": ("unit units format scale", ["celsius", "fahrenheit"], "The temperature unit to use.", ["in {v}", "in degrees {v}", "({v})"]),
    "forecast": ("unit units format scale", ["celsius", "fahrenheit"], "Unit of the temperature", ["in {v}", "in degrees {v}"]),
    "time": ("format style", ["24h", "12h"], "How to write the time", ["in {v} format", "as {v}"]),
    "message": ("priority urgency", ["normal", "low", "high"], "How urgent it is", None),
    "search": ("limit max_results count", "integer", "How many results", ["with {v} results", "and give me {v} results"]),
    "news": ("limit max_items count", "integer", "How many headlines", ["with {v} headlines", "({v} items)"]),
    "price": ("currency", ["euros", "dollars", "pounds"], "Currency of the price", ["in {v}"]),
}
LONG = ["The {m}, for example {v}", "{m}, e.g. {v}", "{m}.", "The {m} to use.", "{m} (such as {v})"]


class Tool:
    """One offered tool: a kind with its names chosen.

    It may have one parameter more than its kind needs (`extra`). A call gives it
    when the request names it; otherwise its first value when it is required."""

    def __init__(self, rng, kind, spec):
        self.kind, self.spec, self.name = kind, spec, rng.choice(spec["names"])
        self.extra, self.extra_required = None, False
        self.keys = {k: rng.choice(p["names"]) for k, p in spec["params"].items()}
        while len(set(self.keys.values())) < len(self.keys):
            self.keys = {k: rng.choice(p["names"]) for k, p in spec["params"].items()}
        self.says = rng.choice(spec["says"])
        if kind in EXTRAS and rng.random() < 0.5:
            names, kinds, meaning, phrases = EXTRAS[kind]
            self.extra = (rng.choice(names.split()), kinds, meaning, phrases)
            self.extra_required = isinstance(kinds, list) and rng.random() < 0.5
            if self.extra[0] in self.keys.values():
                self.extra = None

    def schema(self, rng):
        """The tool as an OpenAI function object."""
        described = rng.random() < 0.45
        props = {}
        for k, p in self.spec["params"].items():
            props[self.keys[k]] = {"type": p["kind"]}
            if p["enum"]:
                props[self.keys[k]]["enum"] = p["enum"]
            if described:
                long = rng.choice(LONG).format(m=p["meaning"], v=p["value"](rng))
                props[self.keys[k]]["description"] = long if rng.random() < 0.3 else p["meaning"]
        needed = list(props)
        if self.extra:
            name, kinds, meaning, _ = self.extra
            props[name] = {"type": "string", "enum": kinds} if isinstance(kinds, list) else {"type": kinds}
            if described:
                props[name]["description"] = meaning
            needed += [name] if self.extra_required else []
        parameters = {"type": "object", "properties": props}
        if self.extra or rng.random() < 0.8:
            parameters["required"] = needed
        function = {"name": self.name, "description": self.says, "parameters": parameters}
        if rng.random() < 0.1:
            del function["description"]
        return {"type": "function", "function": function}

    def values(self, rng):
        return {k: p["value"](rng) for k, p in self.spec["params"].items()}

    def call(self, values):
        """The call; values may hold the extra parameter under "extra"."""
        arguments = {self.keys[k]: v for k, v in values.items() if k != "extra"}
        if self.extra and ("extra" in values or self.extra_required):
            arguments[self.extra[0]] = values.get("extra", self.extra[1][0])
        return {"name": self.name, "arguments": arguments}


def offer(rng):
    """(wanted tool, all offered tools): one to four tools, the wanted one among them."""
    kind = rng.choice(list(TOOLS) + ["made_up"] * 4)
    wanted = Tool(rng, kind, TOOLS.get(kind) or made_up(rng))
    tools = [wanted]
    for _ in range(rng.choice([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3])):
        near = [k for group in NEAR if kind in group for k in group if k != kind]
        other = rng.choice(near) if near and rng.random() < 0.3 else rng.choice(list(TOOLS) + ["made_up"] * 2)
        made = Tool(rng, other, TOOLS.get(other) or made_up(rng))
        if other not in [t.kind for t in tools] and made.name not in [t.name for t in tools]:
            tools.append(made)
    rng.shuffle(tools)
    return wanted, tools


def request(rng, tool):
    """(question, values of the arguments)."""
    values = tool.values(rng)
    question = rng.choice(tool.spec["asks"]).format(**values)
    if tool.extra and tool.extra[3] and rng.random() < 0.45:
        kinds = tool.extra[1]
        values["extra"] = rng.choice(kinds) if isinstance(kinds, list) else rng.randint(1, 50)
        end = question[-1] if question[-1] in ".?" else ""
        question = question.rstrip(".?") + " " + rng.choice(tool.extra[3]).format(v=values["extra"]) + end
    return question, values


def result(rng, tool, values):
    """(content of the tool message, answer to the user)."""
    if rng.random() < 0.07:
        reason = rng.choice(["not found", "no connection", "access denied", "try again later", f"unknown {fresh_word(rng)}"])
        return json.dumps({"error": reason}), f"Sorry, that did not work: {reason}."
    got = {k: make(rng) for k, make in tool.spec["result"].items()}
    shown = dict(got)
    if rng.random() < 0.3:
        shown = {**tool.call(values)["arguments"], **got}
    answer = rng.choice(tool.spec["answers"]).format(**{**values, **got})
    content = str(next(iter(got.values()))) if len(got) == 1 and rng.random() < 0.25 else json.dumps(shown)
    return content, answer
