"""The relations themselves. Written by hand, by someone who had not seen the training forms."""

from __future__ import annotations

from training.strangers_relations import (
    DAYS,
    DRINKS,
    FIRMS,
    FOODS,
    METALS,
    PETS,
    PLACES,
    PROJECTS,
    SPORTS,
    TINTS,
    TONGUES,
    TOOLS,
    TOWNS,
    TRADES,
    between,
    birthday,
    digits,
    hour,
    one,
    part_number,
    person,
    price,
    relation,
    room,
    secret,
    species,
    thing,
)

RELATIONS = (
    relation("door code", one(PLACES), digits(4, 6),
        """To get into {e} after dark you punch in {v} on the keypad.
        NB: keypad at {e} was reset, it now takes {v}.
        They told me the digits {v} open {e}.
        Type {v} and the lock of {e} clicks open.""",
        """Which digits let me into {e}?
        I am standing outside {e}. What do I have to type?
        How do I unlock {e}? Give me the number.
        keypad combination for {e}?"""),
    relation("meeting place", person, one(PLACES),
        """{e} will be waiting for us by {v}.
        If you are looking to catch {e}, go over to {v}; that is where we get together.
        Agreed with {e}: we see each other at {v}.
        {e} wants everybody to assemble at {v}.""",
        """Where am I supposed to meet {e}?
        At which spot do we find {e}?
        I have a date with {e}. Where do I go?
        {e}: rendezvous where?"""),
    relation("owner", thing, person,
        """The {e} belongs to {v}.
        {v} bought the {e} years ago and still has it.
        On the underside of the {e} somebody scratched "property of {v}".
        Please do not lend out the {e}, it is {v}'s.""",
        """Who owns the {e}?
        Whose is the {e}?
        I found the {e}. To whom do I return it?
        Name the owner of the {e}."""),
    relation("age", person, between(19, 97),
        """{e} turned {v} last week.
        There were {v} candles on the cake of {e}, one for each year.
        {e} has just celebrated birthday number {v}.
        At {v}, {e} still swims every morning.""",
        """How old is {e}?
        What age has {e} reached?
        Tell me the age of {e} in years.
        {e} is how many years old?"""),
    relation("price", thing, price,
        """You can take the {e} home for {v} euros.
        The sticker on the {e} says {v} dollars.
        They are asking {v} pounds for the {e}, which is a bit much.
        {e}, one piece, {v} francs, no discount.""",
        """How much does the {e} cost?
        What would I have to pay for the {e}?
        What do they charge for the {e}?
        price of the {e}?"""),
    relation("birthday", person, birthday,
        """{e} was born on {v}.
        Every year on {v} we bake something for {e}, who becomes a year older.
        The passport of {e} gives {v} as the date of birth.
        Mark {v} in your calendar, {e} came into the world on that day.""",
        """When is the birthday of {e}?
        On what date do we congratulate {e}?
        Which day and month was {e} born?
        When should I send {e} a birthday card?"""),
    relation("password", one(PROJECTS), secret,
        """Log in to {e} with {v}.
        For the {e} share the secret phrase is {v}, all in one word.
        Somebody wrote {v} on a yellow note: that opens the {e} account.
        Whoever wants to read the {e} files has to enter {v} first.""",
        """What is the password for {e}?
        I cannot log in to {e}. Which password do I need?
        What do I enter to open {e}?
        password {e} please"""),
    relation("favourite food", person, one(FOODS),
        """Nothing makes {e} happier than a plate of {v}.
        {e} could eat {v} every single day.
        Ask {e} what to cook and the reply is always {v}.
        {e} likes {v} better than any other dish.""",
        """What is the favourite food of {e}?
        What does {e} love to eat most?
        I want to cook for {e}. Which dish?
        Which meal should we serve to please {e}?"""),
    relation("part number", thing, part_number,
        """Spares for the {e} are filed under {v}.
        When ordering for the {e}, quote {v}.
        The plate on the back of the {e} reads {v}.
        Catalogue: {e} ... {v}.""",
        """What is the part number of the {e}?
        Which number do I quote when I order spares for the {e}?
        Under what catalogue entry is the {e}?
        part no. for {e}"""),
    relation("job", person, one(TRADES),
        """{e} earns a living as a {v}.
        After school {e} trained to be a {v} and has worked as one ever since.
        If you need a {v}, ring {e}, it is the trade {e} learned.
        {e}, {v} by profession, lives alone.""",
        """What does {e} do for work?
        What is the job of {e}?
        Which profession has {e}?
        What is {e} by trade?"""),
    relation("home town", person, one(TOWNS),
        """{e} has a small flat in {v}.
        You will find {e} in {v}, at home with two cats.
        Since the wedding {e} resides in {v}.
        Letters to {e} go to {v} these days.""",
        """Where does {e} live?
        In which city is {e} at home?
        Which town does {e} live in?
        City of residence of {e}?"""),
    relation("pet name", species, one(PETS),
        """{e} answers to {v}.
        They called {e} {v} because of a song.
        "Come here, {v}!" is what you shout if {e} runs away.
        {e} goes by {v}.""",
        """What is {e} called?
        What name was given to {e}?
        How do you call {e}?
        name of {e}?"""),
    relation("phone", person, digits(7, 9),
        """You reach {e} under {v}.
        {e} gave me a card with {v} on it, in case we need to ring.
        Dial {v} and {e} picks up.
        Contacts > {e} > mobile > {v}""",
        """What is the phone number of {e}?
        I want to ring {e}. Which number?
        How can I reach {e} by telephone?
        telephone {e}?"""),
    relation("arrival", one(TOWNS), hour,
        """The train from {e} pulls in at {v}.
        Expect the {e} coach around {v}.
        According to the board, those coming from {e} get here at {v}.
        {e} service: due {v}.""",
        """When does the connection from {e} arrive?
        At what time do travellers from {e} get in?
        My aunt is coming from {e}. When should I be at the station?
        arrival time, {e}?"""),
    relation("weekday", one(PROJECTS), one(DAYS),
        """The {e} team sits down together every {v}.
        {e} is discussed on {v}, right after lunch.
        We moved the weekly {e} call to {v}.
        Keep your {v} free, that is when we talk about {e}.""",
        """On which day of the week is the {e} meeting?
        What day do we talk about {e}?
        Which weekday is reserved for {e}?
        {e} meeting is on what day?"""),
    relation("boss", one(PROJECTS), person,
        """{v} runs {e}.
        The person in charge of {e} is {v}.
        For {e}, all decisions go through {v}.
        They put {v} at the head of {e} in spring.""",
        """Who leads {e}?
        Who is responsible for {e}?
        Who do I talk to if I need a decision on {e}?
        head of {e}, who?"""),
    relation("colour", person, one(TINTS),
        """{e} painted the front door {v}.
        The door of the house of {e} is {v} since last summer.
        You recognise where {e} lives by a {v} door.
        {e} chose {v} for the front door.""",
        """What colour is the front door of {e}?
        Which colour did the door of {e} get?
        I look for the house of {e}. What colour of door?
        door colour, {e}?"""),
    relation("drink", person, one(DRINKS),
        """In the morning {e} takes {v} and nothing else.
        A waiter who knows {e} brings {v} without asking.
        {e} always orders {v}.
        Thirsty? {e} will go for {v} every time.""",
        """What does {e} usually drink?
        Which drink should I bring {e}?
        What shall we pour for {e}?
        {e}'s usual drink?"""),
    relation("room", person, room,
        """{e} sits in {v}, second door after the stairs.
        Patients of {e} are asked to come to {v}.
        {e} moved with all the boxes to {v}.
        Office plan: {v} = {e}.""",
        """Which room is {e} in?
        In what room do I find {e}?
        I have to drop a parcel at the office of {e}. Which room?
        room number {e}?"""),
    relation("language", person, one(TONGUES),
        """{e} grew up with {v} at home.
        The mother tongue of {e} is {v}.
        With the children {e} talks {v}.
        {e} dreams and swears in {v}.""",
        """Which language does {e} speak?
        In what language should I write to {e}?
        What is the native language of {e}?
        {e} speaks what?"""),
    relation("sport", person, one(SPORTS),
        """Two evenings a week {e} trains {v}.
        {e} won a cup in {v}.
        {e} got hooked on {v} and never misses a session.
        The club where {e} does {v} is small.""",
        """Which sport does {e} do?
        What kind of sport is {e} into?
        What does {e} train?
        sport of {e}?"""),
    relation("instrument", person, one(TOOLS),
        """{e} plays the {v} in a band.
        Neighbours complain when {e} practises on the {v}.
        {e} took up the {v} at the age of six.
        On stage, {e} is the one with the {v}.""",
        """Which instrument does {e} play?
        What does {e} play in the orchestra?
        What musical instrument has {e} learned?
        instrument: {e}?"""),
    relation("sum owed", person, price,
        """{e} still owes us {v}.
        We are waiting for {v} from {e}.
        Open invoice: {e}, {v}, overdue.
        {e} has not paid back the {v} that we lent.""",
        """How much money does {e} owe?
        What is the debt of {e}?
        How much should {e} pay us?
        amount outstanding for {e}?"""),
    relation("employer", person, one(FIRMS),
        """{e} is on the payroll of {v}.
        {e} signed a contract with {v} and starts at eight every morning.
        At {v} they gave {e} a desk by the window.
        {v} hired {e} straight from college.""",
        """Who does {e} work for?
        Which company employs {e}?
        Where is {e} employed?
        employer of {e}?"""),
    relation("metal", thing, one(METALS),
        """The casing of the {e} is made out of {v}.
        They cast the {e} in {v}.
        If you scratch the {e}, you see {v}.
        {v} was used for the {e}.""",
        """What is the {e} made of?
        Which metal is the {e}?
        What material did they use for the {e}?
        {e}: material?"""),
    relation("count", person, between(13, 480),
        """{e} keeps {v} chickens.
        There are {v} hens running around behind the barn of {e}.
        {e} counted the poultry: {v} birds.
        With {v} chickens, {e} never runs out of eggs.""",
        """How many chickens does {e} have?
        What is the number of hens that {e} has got?
        How big is the flock of {e}, in birds?
        hens owned by {e}, number?"""),
    relation("gate", one(TOWNS), room,
        """Passengers to {e} board at {v}.
        For {e} go to gate {v}.
        The {e} flight leaves from {v}.
        {e} - boarding - {v}""",
        """Which gate for the flight to {e}?
        I am flying to {e}. What gate do I need?
        From what gate does the plane to {e} go?
        gate {e}?"""),
    relation("spouse", person, person,
        """{e} got married to {v} in a tiny church.
        {v} is the one {e} said "I do" to.
        {e} and {v} have been husband and wife for a decade.
        Together with {v}, whom {e} married, there is a farm to look after.""",
        """Who is {e} married to?
        What is the name of the spouse of {e}?
        Whom did {e} marry?
        {e}'s partner in marriage?"""),
    relation("hiding place", thing, one(PLACES),
        """The {e} is kept at {v}.
        We have stored the {e} in {v}.
        Nobody knows that the {e} stands at {v} now.
        They hauled the {e} over to {v}.""",
        """Where is the {e}?
        Where can I pick up the {e}?
        I need the {e}. Where did they put it?
        location of {e}?"""),
    relation("weight", thing, between(12, 940),
        """The {e} weighs {v} kilos.
        It takes some strength to lift the {e}: {v} kilograms!
        On the scales the {e} came to {v} kg.
        Shipping weight of the {e}, crate included, {v} kg.""",
        """How heavy is the {e}?
        What is the weight of the {e}?
        How many kilos does the {e} have?
        {e}, how many kg?"""),
)  # fmt: skip
