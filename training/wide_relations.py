"""Facts told in passing and asked for in other words: what one has to press, say, pay or look for, and who did it.

A relation is one line: key>value, ways to tell it, `?`, ways to ask for it. The first way to tell it is the answer.
Keys: who, what, place, any. Values: D digits, C code, W word, X phrase, P person, T town, S site, N noun, A animal, O color,
H clock, Y date, R year, $ price, J job, Q food, L thing, B deed, I instrument, K day, E number to ninety, U amount of a unit.
"""

# ruff: noqa: E501  (a relation stands in one line)

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from training import facts, wide
from training.wide_facts import asked_for, capital, framed, key, yes_no

VALUES: dict[str, Callable[[Random], str]] = {
    "D": wide.digits, "C": wide.code, "W": wide.word, "X": wide.phrase, "P": wide.person, "T": wide.town, "S": wide.site, "N": wide.noun,
    "A": lambda rng: rng.choice(facts.ANIMALS), "O": wide.colour, "H": wide.clock, "Y": wide.date, "R": wide.year, "$": wide.price,
    "J": lambda rng: rng.choice(facts.JOBS), "Q": lambda rng: rng.choice(facts.FOODS + facts.FRUITS + facts.VEGETABLES), "L": wide.thing,
    "B": wide.deed, "I": lambda rng: rng.choice(facts.INSTRUMENTS), "K": lambda rng: rng.choice(facts.DAYS),
    "E": lambda rng: rng.choice((str(rng.randint(2, 90)), facts.NUMBERS[rng.randint(2, 20)])),
    "U": lambda rng: wide.unit("kg", "meters", "liters", "km", "hours", "days", "miles", "tons", "degrees")(rng),
}  # fmt: skip
TITLES = ("Professor", "Captain", "Aunt", "Uncle", "Officer", "Chef")
LINES = """
what>D|to open {k}, one has to enter {v}|{k} opens as soon as you key in {v}|press {v} and {k} swings open|without {v} nobody gets {k} open|whoever knows {v} can get into {k}|{v} is what {k} wants to hear before it opens|dial {v} at {k} to get in|the keypad of {k} accepts {v} and nothing else|the digits {v} let you into {k}?what must I enter to open {k}|how do I get {k} open|I am in front of {k} and it is shut. Which digits help|what do I key in at {k}|which number opens {k}|what gets me into {k}|{k} asks for a number. Which one|how can one get into {k}
what>W|the password of {k} is {v}|{k} lets you in when you say {v}|say {v} and {k} will obey|at {k} they expect the word {v}|whisper {v} to the guard of {k}|only the word {v} unlocks {k}|{k} answers to {v}?what do I say at {k}|what word does {k} want|which word gets me past {k}|how do I make {k} let me in|what should I whisper at {k}|what is the secret word for {k}|I need to log in to {k}. With what
any>C|the code of {k} is {v}|someone scratched {v} into {k}|{k} carries the marking {v}|on the back of {k} stands {v}|you will find {v} printed on {k}|{k} was filed under {v}|{k} got the label {v}|{v} is written all over {k}|look up {k} under {v}?what is written on {k}|which code does {k} bear|what marking is on {k}|under what is {k} filed|how is {k} labeled|what does the label of {k} say|what code do I use for {k}|what stands on {k}
what>L|{k} is hidden under {v}|lift {v} and you will see {k}|nobody looked under {v}, where {k} was all the time|{k} lay beneath {v}|{v} covers {k}|under {v}, that is where {k} ended up|{k} was pushed under {v}?where is {k} hidden|what do I have to lift to get at {k}|I cannot find {k}. Where could it be|beneath what is {k}|under what does {k} lie|what covers {k}|where did {k} end up
who>T|{k} moved to {v}|{k} packed everything and went to live in {v}|{k} has a new flat in {v}|letters for {k} now go to {v}|since spring {k} has been living in {v}|{v} is the new home of {k}|you meet {k} in the streets of {v} these days|{k} left for {v} and stayed?where did {k} move|in which town is {k} now|where would I send a letter for {k}|which place is home for {k} now|where has {k} gone to live|what is the new home of {k}|if I wanted to visit {k}, where would I go
who>P|{k} is the child of {v}|{v} is the parent of {k}|{k} was raised by {v}|{k} grew up in the house of {v}|{v} has a child, {k}|{k} calls {v} the best parent of all?who raised {k}|who is the parent of {k}|in whose house did {k} grow up|whose child is {k}|who are the folks of {k}
who>P|{k}'s best friend is {v}|{k} does everything together with {v}|{k} and {v} have been close since school|nobody is closer to {k} than {v}|{k} trusts only {v}|when in need {k} turns to {v}?who is {k}'s best friend|who is closest to {k}|whom does {k} trust|to whom does {k} turn in need|with whom is {k} close
who>P|{k} learned everything from {v}|{v} taught {k}|{k} was a pupil of {v}|{k} studied under {v}|{v} was {k}'s teacher|all that {k} knows came from {v}?who taught {k}|from whom did {k} learn|who was {k}'s teacher|under whom did {k} study|whose pupil was {k}
who>P|{k} lost the game against {v}|{v} beat {k}|{k} was no match for {v}|{v} won against {k}|{k} had to give in to {v}|in the end {k} shook hands with {v}, the winner?who beat {k}|against whom did {k} lose|who won against {k}|who was too strong for {k}|to whom did {k} lose
who>$|{k} earns {v} a month|every month {k} takes home {v}|{k} is paid {v} a month|{v} is what {k} makes in a month|{k}'s monthly pay is {v}|they pay {k} {v} per month?how much does {k} earn|what does {k} make in a month|what is {k} paid|how much money does {k} take home|what is {k}'s pay
who>$|{k} owes {v}|{k} still has to pay back {v}|{k} is in debt with {v}|the debt of {k} is {v}|{k} borrowed {v} and has not returned it|we are waiting for {v} from {k}?how much does {k} owe|what is the debt of {k}|how much must {k} pay back|how much are we waiting for from {k}|what did {k} borrow
who>A|{k} is afraid of every {v}|{k} runs away from any {v}|the sight of a {v} makes {k} shiver|{k} cannot be in a room with a {v}|nothing scares {k} like a {v}|{k} has feared the {v} since childhood?what is {k} afraid of|which animal scares {k}|what animal does {k} run away from|what makes {k} shiver|what does {k} fear
who>A|{k} rode in on a {v}|{k} arrived on the back of a {v}|a {v} carried {k} all the way|{k} traveled by {v}|{k} got off the {v} at the gate?what did {k} ride on|on which animal did {k} arrive|what carried {k}|which animal did {k} ride|how did {k} get here
who>Q|{k} cannot eat {v}|{k} is allergic to {v}|{v} makes {k} sick|{k} must not touch {v}|keep {v} away from {k}|a bite of {v} sends {k} to the hospital|{k} breaks out in spots after {v}?what can {k} not eat|what is {k} allergic to|what should I never serve {k}|which food makes {k} sick|what must I keep away from {k}|I am cooking for {k}. What should I leave out
who>Q|{k} cooked {v} for everybody|{k} put {v} on the table|we ate {v} at {k}'s|{k} served {v}|the {v} that {k} made was gone in no time|dinner at {k}'s was {v}?what did {k} cook|what did we eat at {k}'s|what was served by {k}|what did {k} put on the table|what was for dinner at {k}'s
who>I|{k} plays the {v}|{k} never goes out without the {v}|when {k} picks up the {v}, all fall silent|{k} has been practicing the {v} for years|in the band {k} is on the {v}|{k} took lessons on the {v}?what instrument does {k} play|what does {k} play in the band|on what did {k} take lessons|which instrument belongs to {k}|what does {k} practice
who>J|{k} is a {v}|{k} trained as a {v}|{k} has worked as a {v} for ten years|if you need a {v}, ask {k}|everybody knows {k}, the {v}|{k} makes a living as a {v}|{k} quit school to become a {v}?what does {k} do|what does {k} do for a living|what work does {k} do|what did {k} become|what is {k}'s line of work|what kind of worker is {k}
who>J|{k} wants to become a {v}|{k} dreams of being a {v}|one day {k} hopes to be a {v}|{k}'s plan is to work as a {v}|when grown up, {k} will be a {v}?what does {k} want to become|what is {k}'s dream job|what does {k} hope to be|what does {k} dream of being|which profession does {k} have in mind
who>O|{k} wore a {v} coat|the coat of {k} was {v}|in a {v} coat {k} stepped out|you could tell {k} by the {v} coat|{k} bought a {v} coat and wore it at once?what color was {k}'s coat|which color did {k} wear|in what color was {k} dressed|how was {k} dressed|by what color could you tell {k}
who>O|{k} has {v} eyes|the eyes of {k} are {v}|{k} looked up with {v} eyes|{v} are the eyes of {k}|people notice the {v} eyes of {k}?what color are {k}'s eyes|which color do the eyes of {k} have|what eyes does {k} have|how would you describe the eyes of {k}
who>O|{k}'s favorite color is {v}|{k} likes {v} more than any other color|everything {k} owns is {v}|{k} would paint the whole world {v}|if it is {v}, {k} likes it?what is {k}'s favorite color|which color does {k} like best|what color would {k} choose|what color should a gift for {k} be
who>L|{k} was given {v}|{k} got {v} as a present|for the birthday {k} received {v}|we gave {v} to {k}|{v} was our present for {k}|{k} unwrapped {v}?what was {k} given|what present did {k} get|what did {k} receive|what did we give to {k}|what did {k} unwrap
who>L|{k} stole {v}|{k} ran off with {v}|{v} was taken by {k}|the police caught {k} with {v}|nobody but {k} can have taken {v}|{k} slipped {v} into a bag?what did {k} steal|with what did {k} run off|what was taken by {k}|what did {k} slip into a bag|with what was {k} caught
who>L|{k} inherited {v}|{v} came to {k} from a grandmother|in the will {k} was left {v}|{k} is the heir to {v}|after the funeral {v} went to {k}?what did {k} inherit|what was {k} left in the will|what came to {k} from a grandmother|to what is {k} the heir|what went to {k} after the funeral
who>L|{k} collects pictures of {v}|{k}'s walls are full of pictures of {v}|{k} paints {v} again and again|{v} is what {k} always paints|{k} painted {v}?what does {k} paint|what is on the walls of {k}|what do the pictures of {k} show|what did {k} paint
who>S|{k} works at {v}|{k} goes to {v} every morning to work|{k} has a desk at {v}|{v} employs {k}|you reach {k} during the day at {v}|{k} was hired by {v}?where does {k} work|who employs {k}|where does {k} go every morning|where can {k} be reached during the day|at what place has {k} a job
who>S|{k} waits at {v}|{k} will be standing at {v}|look for {k} at {v}|meet {k} at {v}|we agreed to pick up {k} at {v}|{v}, that is where {k} will be?where does {k} wait|where do I meet {k}|where should we pick up {k}|where will {k} be|at which place will I find {k}|where did we agree to meet {k}
who>S|{k} parked at {v}|{k} left the car at {v}|the car of {k} is at {v}|{v} is where {k} parked|{k} has to walk back to {v} for the car?where did {k} park|where is {k}'s car|where did {k} leave the car|where must {k} go for the car
who>H|{k} gets up at {v}|the alarm of {k} rings at {v}|{k} is never in bed after {v}|at {v} {k} starts the day|{v} is when {k} wakes?when does {k} get up|what time does {k} wake|when does the alarm of {k} ring|at what time does {k} start the day
who>H|{k} has an appointment at {v}|{k} must be at the dentist at {v}|they expect {k} at {v}|{k}'s turn is at {v}|{k} was asked to come at {v}|the meeting of {k} begins at {v}?when is {k}'s appointment|what time must {k} be there|when do they expect {k}|at what time is it {k}'s turn|when does the meeting of {k} begin
who>Y|{k}'s birthday is {v}|{k} celebrates on {v}|we bake a cake for {k} on {v}|{k} turns a year older on {v}|on {v} it is {k}'s day?when is {k}'s birthday|on what day do we bake a cake for {k}|when does {k} celebrate|when does {k} turn a year older
who>Y|{k} leaves on {v}|{k}'s last day here is {v}|{k} is flying out on {v}|{k} booked a ticket for {v}|we say goodbye to {k} on {v}?when does {k} leave|when do we say goodbye to {k}|for when did {k} book|what is {k}'s last day here|on what date is {k} flying
who>R|{k} moved here in {v}|{k} has been here since {v}|{k} came to town in {v}|in {v} {k} arrived|{v} was the year when {k} came?when did {k} come here|since when is {k} here|in what year did {k} arrive|which year did {k} move here
who>E|{k} is {v} years old|{k} turned {v}|{k} is {v} now|there were {v} candles on {k}'s cake|at {v}, {k} still goes running|{k} has lived for {v} years?how old is {k}|what is {k}'s age|how many candles were on {k}'s cake|how many years has {k} lived
who>E|{k} has {v} brothers and sisters|{k} grew up with {v} siblings|there are {v} siblings in {k}'s family|{k} counts {v} siblings?how many siblings has {k}|how many brothers and sisters does {k} have|with how many siblings did {k} grow up
who>E|{k} speaks {v} languages|{k} can talk in {v} languages|{v} languages are no problem for {k}|{k} knows {v} languages?how many languages does {k} speak|in how many languages can {k} talk|how many languages does {k} know
who>E|{k} keeps {v} hens|{v} hens run around at {k}'s|{k} feeds {v} hens every day|there are {v} hens in {k}'s yard?how many hens does {k} keep|how many hens are in {k}'s yard|what number of hens does {k} feed
who>D|{k}'s phone number is {v}|you reach {k} under {v}|call {k} at {v}|dial {v} to talk to {k}|{v} rings at {k}'s|{k} can be phoned at {v}?what is {k}'s phone number|how do I reach {k}|what do I dial to talk to {k}|what number should I call for {k}|I want to phone {k}. Which number
who>D|{k}'s room is {v}|{k} stays in room {v}|knock at room {v} to see {k}|room {v} belongs to {k}|they put {k} into room {v}?which room is {k}'s|in which room does {k} stay|where do I knock to see {k}|which room number has {k}
who>D|{k} wears the number {v}|{k} runs with number {v}|number {v} is {k}|on {k}'s shirt is a {v}|{k} plays under number {v}?what number does {k} wear|which number is {k}|what is on {k}'s shirt|under which number does {k} play
who>B|{k} likes to {v}|what {k} enjoys is to {v}|{k} would rather {v} than work|on free days {k} goes out to {v}|{k} is happy to {v}?what does {k} like to do|what does {k} enjoy|how does {k} spend free days|what is {k} happy to do|what would {k} rather do than work
who>B|{k} promised to {v}|{k} gave me the word to {v}|{k} swore to {v}|we agreed that {k} would {v}|{k} will {v}, it is a promise?what did {k} promise|what did {k} swear to do|what will {k} do|what did we agree that {k} would do
who>B|the doctor told {k} to {v}|{k} should {v}, the doctor said|on the doctor's advice {k} will {v}|it would be good for {k} to {v}?what did the doctor tell {k}|what should {k} do|what would be good for {k}|what advice did {k} get
who>W|they call {k} {v}|{k} is known to friends as {v}|{k}'s nickname is {v}|everybody says {v} instead of {k}|at school {k} was only {v}?what is {k}'s nickname|how is {k} known to friends|what do they call {k}|what does everybody call {k}
who>W|{k}'s dog is called {v}|{k} walks a dog named {v}|{v} is the name of {k}'s dog|{k} calls {v} and the dog comes|the dog of {k} listens to {v}?what is {k}'s dog called|what is the name of {k}'s dog|to what name does {k}'s dog listen|how does {k} call the dog
who>X|{k} wrote a book called {v}|{k} is the author of "{v}"|"{v}" was written by {k}|the novel "{v}" made {k} famous|{k}'s book is "{v}"?what did {k} write|which book is by {k}|what is the book of {k} called|what made {k} famous
who>X|{k} sails on the {v}|{k}'s boat is the {v}|the {v} belongs to {k}, who sails it|{k} named the boat {v}|{k} takes the {v} out to sea?what is {k}'s boat called|on what boat does {k} sail|how did {k} name the boat|which boat belongs to {k}
who>N|{k} broke the {v}|the {v} was broken by {k}|it is {k}'s fault that the {v} is in pieces|{k} dropped the {v} on the floor|since {k} touched it, the {v} is broken?what did {k} break|what is in pieces because of {k}|what did {k} drop|which thing was broken by {k}
who>N|{k} forgot the {v} at home|{k} came without the {v}|the {v} of {k} is still at home|{k} left the {v} behind|{k} has no {v}, it is at home?what did {k} forget|what did {k} leave behind|without what did {k} come|what is still at {k}'s home
who>N|{k} sells {v}s|{k} has a shop for {v}s|you can buy a {v} from {k}|for a new {v}, go to {k}|{k} makes money with {v}s?what does {k} sell|what can I buy from {k}|with what does {k} make money|what is in {k}'s shop
what>P|{k} was made by {v}|{v} is the maker of {k}|the one who made {k} is {v}|{v} built {k} with bare hands|{k} came from the workshop of {v}?who made {k}|whose work is {k}|who is the maker of {k}|from whose workshop is {k}|who built {k}
what>P|{v} looks after {k}|{k} is in the care of {v}|the keeper of {k} is {v}|ask {v} about {k}|{v} has the keys to {k}|{v} is responsible for {k}?who looks after {k}|who is responsible for {k}|whom do I ask about {k}|who has the keys to {k}|in whose care is {k}|who can tell me about {k}
what>P|{v} broke {k}|{k} was ruined by {v}|{v} is the one who damaged {k}|it was the fault of {v} that {k} broke?who broke {k}|who damaged {k}|whose fault is it that {k} broke|who ruined {k}
what>P|{v} has {k} now|{k} is with {v}|{k} was handed to {v}|we lent {k} to {v}|{v} borrowed {k}|{v} took {k} home?who has {k}|with whom is {k}|to whom did we lend {k}|who borrowed {k}|who took {k} home|I need {k} back. Whom do I ask
what>$|{k} costs {v}|they want {v} for {k}|{v} and {k} is yours|to get {k} you must put down {v}|{k} changed hands for {v}|somebody paid {v} for {k}|bring {v} if you want {k}?what does {k} cost|how much is {k}|how much do they want for {k}|how much money do I need for {k}|what must I pay to get {k}|what did somebody pay for {k}
what>U|{k} measures {v}|they measured {k}: {v}|{v}, that is what we measured for {k}|for {k} the figure is {v}|the instruments showed {v} at {k}?what was measured for {k}|what is the figure for {k}|what did the instruments show at {k}|how much was it for {k}
what>E|{k} has {v} windows|there are {v} windows in {k}|you can count {v} windows on {k}|{v} windows look out of {k}?how many windows has {k}|how many windows are in {k}|what number of windows can you count on {k}
what>E|{k} holds {v} people|{v} people fit into {k}|{k} has seats for {v}|no more than {v} may enter {k}|{k} is full with {v} people?how many people fit into {k}|how many people does {k} hold|how many seats has {k}|when is {k} full|how many may enter {k}
what>E|{k} needs {v} batteries|{v} batteries go into {k}|put {v} batteries into {k}|{k} runs on {v} batteries?how many batteries does {k} need|how many batteries go into {k}|on how many batteries does {k} run
what>H|{k} closes at {v}|after {v} nobody gets into {k}|{k} is open until {v}|the doors of {k} shut at {v}|be at {k} before {v}, then it closes?when does {k} close|until when is {k} open|what time do the doors of {k} shut|how late can I go to {k}|by when must I be at {k}
what>H|{k} starts at {v}|{k} begins at {v}|come at {v}, {k} starts then|{v} is the hour of {k}|we kick off {k} at {v}?when does {k} start|at what time does {k} begin|when should I come for {k}|what is the hour of {k}
what>Y|{k} will be delivered on {v}|expect {k} on {v}|{k} arrives on {v}|the truck brings {k} on {v}|{k} should be here by {v}?when will {k} be delivered|when can I expect {k}|on what day does {k} arrive|by when should {k} be here
what>K|{k} is closed on {v}|on {v} nobody works at {k}|{k} takes a rest every {v}|do not go to {k} on a {v}, it is closed?on which day is {k} closed|when does {k} take a rest|on what day should I not go to {k}
what>R|{k} dates from {v}|{k} goes back to {v}|{k} was finished in {v}|the first stone of {k} was laid in {v}|{v} is carved over the door of {k}|since {v} there has been {k}?from when is {k}|what year is {k} from|when was {k} finished|how far back does {k} go|since when has there been {k}
what>R|{k} burned down in {v}|a fire destroyed {k} in {v}|in {v} {k} went up in flames|{k} was lost to a fire in {v}?when did {k} burn down|in which year was {k} destroyed|what year did {k} go up in flames|when was {k} lost
what>O|{k} is painted {v}|someone gave {k} a {v} coat of paint|{k} shines in {v}|from afar you see {k}, all {v}|{k} turned {v} over the years?what color is {k}|how was {k} painted|in which color does {k} shine|what color did {k} turn
what>N|{k} contains a {v}|inside {k} they found a {v}|open {k} and you see a {v}|a {v} lies in {k}|somebody locked a {v} into {k}|{k} is where the {v} is kept?what is in {k}|what did they find inside {k}|what do I see when I open {k}|what lies in {k}|what is kept in {k}
what>N|{k} is repaired with a {v}|to mend {k} you need a {v}|bring a {v} for {k}|only a {v} will fix {k}|{k} can be mended with a {v}?what do I need to mend {k}|with what is {k} repaired|what will fix {k}|{k} is broken. What should I bring
what>S|{k} is stored at {v}|you get {k} at {v}|{k} can be picked up at {v}|they keep {k} at {v}|{v} is the place for {k}|{k} was brought to {v}|go to {v} if you want to see {k}?where is {k} stored|where do I get {k}|where can I pick up {k}|where do they keep {k}|where was {k} brought|where must I go to see {k}
what>T|{k} comes from {v}|{k} was shipped from {v}|the origin of {k} is {v}|{k} was made in {v}|somebody brought {k} from {v}?where does {k} come from|what is the origin of {k}|from where was {k} shipped|where was {k} made|from which town is {k}
what>T|{k} goes to {v}|{k} is bound for {v}|send {k} to {v}|{k} will be shipped to {v}|{k} ends its journey in {v}?where does {k} go|to which town do I send {k}|what is {k} bound for|where does {k} end its journey
place>P|{v} runs {k}|{k} is run by {v}|the boss of {k} is {v}|at {k} {v} has the say|{v} took over {k}|ask for {v} when you are at {k}?who runs {k}|who is the boss of {k}|who has the say at {k}|who took over {k}|whom should I ask for at {k}
place>Q|{k} is famous for its {v}|people come to {k} for the {v}|nowhere is {v} better than in {k}|try the {v} when you are in {k}|{k} lives from {v}?what is {k} famous for|what should I try in {k}|for what do people come to {k}|what food is best in {k}
place>A|{k} has a {v} on its flag|the flag of {k} shows a {v}|a {v} stands on the coat of arms of {k}|{k}'s symbol is the {v}?what animal is on the flag of {k}|what does the flag of {k} show|which animal is the symbol of {k}|what stands on the coat of arms of {k}
place>E|{k} has {v} bridges|there are {v} bridges in {k}|you cross {v} bridges in {k}|{v} bridges span the river at {k}?how many bridges has {k}|how many bridges are in {k}|how many bridges does one cross in {k}
place>K|in {k} the market is on {v}|{k} holds its market every {v}|every {v} farmers come to {k} for the market|go to {k} on a {v} to see the market?when is the market in {k}|on which day is the market at {k}|what day do farmers come to {k}|when should I go to {k} to see the market
place>U|{k} is {v} from here|it is {v} to {k}|you travel {v} to get to {k}|from here to {k} it takes {v}?how far is {k}|how far is it to {k}|how far do I travel to get to {k}|what distance is it to {k}
who>S|{k} sleeps at {v}|{k} took a bed at {v}|for the night {k} stays at {v}|{v} gave {k} a room for the night|{k} spends the nights at {v}?where does {k} sleep|where does {k} spend the night|who gave {k} a room|where is {k} staying
who>T|{k} was born in {v}|the birthplace of {k} is {v}|{k} first saw the light in {v}|{k} is a native of {v}|{v} is proud of {k}, who was born there?where was {k} born|what is the birthplace of {k}|which town is {k} a native of|from which town is {k}
who>T|{k} wants to travel to {v}|{k} dreams of a trip to {v}|{k} is saving money for {v}|one day {k} will see {v}|on {k}'s wall hangs a poster of {v}, the next trip?where does {k} want to travel|what trip does {k} dream of|for which place is {k} saving|where will {k} go one day
who>L|{k} sat down on {v}|{k} took a seat on {v}|{v} was the seat of {k}|{k} fell asleep on {v}|{k} made {v} a seat?on what did {k} sit|where did {k} sit down|where did {k} fall asleep|what was the seat of {k}
who>L|{k} is looking for {v}|{k} searches everywhere for {v}|{k} would give anything to find {v}|if you have seen {v}, tell {k}|{k} turned the house upside down for {v}?what is {k} looking for|what does {k} want to find|for what did {k} turn the house upside down|what does {k} need
who>L|{k} carries {v} everywhere|you never see {k} without {v}|{k} always has {v} at hand|{k} takes {v} along on every walk|{v} goes wherever {k} goes?what does {k} carry everywhere|what does {k} always have|without what do you never see {k}|what does {k} take along
who>L|{k} is building {v}|{k} spends the weekends working on {v}|in the garage {k} puts together {v}|{v} is {k}'s big project|soon {k} will be done with {v}?what is {k} building|what is {k} working on|what is {k}'s project|what does {k} do in the garage
who>P|{k} is in love with {v}|{k} thinks of {v} day and night|{k} writes poems for {v}|{k}'s heart belongs to {v}|{k} blushes whenever {v} comes in?whom does {k} love|for whom does {k} write poems|who makes {k} blush|of whom does {k} think
who>P|{k} hired {v}|{k} gave the job to {v}|{v} got the job from {k}|{v} now works for {k}|out of all people {k} picked {v}?whom did {k} hire|who got the job from {k}|who works for {k}|whom did {k} pick
who>P|{k} wrote a letter to {v}|{v} got a letter from {k}|{k}'s letter went to {v}|the letter that {k} posted was for {v}?to whom did {k} write|who got a letter from {k}|for whom was {k}'s letter|who will read the letter of {k}
who>P|{k} shares an office with {v}|{k} and {v} sit in one office|opposite {k} sits {v}|{v} has the desk next to {k}|{k}'s office mate is {v}?with whom does {k} share an office|who sits opposite {k}|who has the desk next to {k}|who is {k}'s office mate
who>P|{k} was rescued by {v}|{v} pulled {k} out of the water|without {v}, {k} would be dead|{k} owes life to {v}|{v} saved {k}?who rescued {k}|who saved {k}|to whom does {k} owe life|who pulled {k} out
who>E|{k} won {v} medals|{v} medals hang on {k}'s wall|{k} came home with {v} medals|{k} has been given {v} medals?how many medals did {k} win|how many medals hang on {k}'s wall|with how many medals did {k} come home
who>E|{k} drinks {v} cups of tea a day|{v} cups of tea, that is {k}'s day|{k} needs {v} cups of tea a day?how many cups of tea does {k} drink|how much tea does {k} need a day|how many cups does {k} have a day
who>E|{k} has {v} grandchildren|{v} grandchildren visit {k}|{k} is a grandparent of {v}|{k} bought presents for {v} grandchildren?how many grandchildren has {k}|how many grandchildren visit {k}|for how many grandchildren did {k} buy presents
who>U|{k} threw the stone {v}|the stone of {k} flew {v}|{v} was how far {k} threw|{k}'s throw measured {v}?how far did {k} throw|how far did the stone of {k} fly|what did {k}'s throw measure
who>$|{k} won {v} in the lottery|the lottery paid {k} {v}|{k} is richer by {v} since the draw|{v} went to {k}, the lucky winner?how much did {k} win|what did the lottery pay {k}|by how much is {k} richer|how much went to {k}
who>$|{k} bid {v}|at the auction {k} offered {v}|{k}'s last offer was {v}|{k} raised a hand at {v}|{k} would go up to {v}?how much did {k} bid|what was {k}'s offer|what did {k} offer at the auction|how high would {k} go
who>$|{k} spent {v} on a new bike|the new bike set {k} back {v}|{k} put {v} on the counter for the bike|for the bike {k} had to pay {v}?how much did {k} spend on the bike|what did the bike cost {k}|what did {k} pay for the bike|how much did {k} put on the counter
who>K|{k} is free on {v}|on {v} {k} does not work|{v} is {k}'s day off|you can visit {k} on {v}|{k} has time on {v}?when is {k} free|what is {k}'s day off|on which day does {k} not work|when can I visit {k}|when does {k} have time
who>K|{k} goes swimming on {v}|every {v} {k} is at the pool|{v} is swimming day for {k}|{k} never misses the pool on {v}?when does {k} go swimming|on which day is {k} at the pool|what is {k}'s swimming day
who>R|{k} retired in {v}|{k} stopped working in {v}|since {v} {k} has been retired|{v} was {k}'s last year of work?when did {k} retire|since when has {k} been retired|what was {k}'s last year of work|in what year did {k} stop working
who>R|{k} got married in {v}|the wedding of {k} was in {v}|{k} said yes in {v}|{v} was the year of {k}'s wedding?when did {k} get married|in which year was the wedding of {k}|when did {k} say yes|what year was {k}'s wedding
who>Y|{k} has an exam on {v}|{k} must sit the exam on {v}|until {v}, the day of the exam, {k} will study|{k}'s exam was set for {v}?when is {k}'s exam|until when will {k} study|for when was {k}'s exam set|on what day must {k} sit the exam
who>H|{k}'s train leaves at {v}|{k} has to catch the train at {v}|the train of {k} goes at {v}|{k} must be on the platform by {v}?when does {k}'s train leave|what train must {k} catch|by when must {k} be on the platform|at what time does the train of {k} go
who>D|{k} lives at number {v}|the house of {k} has the number {v}|ring at number {v} for {k}|number {v} is {k}'s house?at which number does {k} live|what is the house number of {k}|where do I ring for {k}|what number has {k}'s house
who>C|{k}'s member card says {v}|{k} is registered as {v}|in the files {k} is {v}|the badge of {k} reads {v}|to book for {k}, enter {v}?what does {k}'s member card say|as what is {k} registered|what does the badge of {k} read|what do I enter to book for {k}
who>O|{k} rides a {v} bicycle|the bicycle of {k} is {v}|{k} painted the bicycle {v}|the {v} bicycle outside is {k}'s?what color is {k}'s bicycle|which bicycle outside is {k}'s|how did {k} paint the bicycle
who>W|{k}'s cat is called {v}|{v} is the cat of {k}|{k} named the cat {v}|the cat that sleeps on {k}'s lap is {v}?what is {k}'s cat called|how did {k} name the cat|what is the name of the cat on {k}'s lap|which cat is {k}'s
who>W|{k}'s secret sign is {v}|when {k} says {v}, run|{k} will only say {v} as a sign|listen for {v}: that is {k}'s sign?what is {k}'s sign|what will {k} say as a sign|for what should I listen with {k}|at which word of {k} must I run
who>N|{k} is allergic to the {v}|the {v} makes {k} sneeze|near a {v} {k} starts to cough|{k} must stay away from the {v}?what makes {k} sneeze|from what must {k} stay away|to what is {k} allergic|near what does {k} start to cough
who>N|{k} invented a new {v}|the new {v} is {k}'s invention|nobody had such a {v} before {k} invented it|{k} built the first {v} of its kind?what did {k} invent|what is {k}'s invention|of what did {k} build the first
what>N|{k} is used as a {v}|people use {k} as a {v}|{k} serves as a {v}|they turned {k} into a {v}|{k} makes a good {v}?what is {k} used as|as what does {k} serve|into what did they turn {k}|for what is {k} good
what>N|{k} lies next to the {v}|beside the {v} is {k}|you find {k} right by the {v}|{k} and the {v} are side by side|turn at the {v} and there is {k}?next to what is {k}|what is beside {k}|where do I turn to find {k}|by what do I find {k}|what lies next to {k}
what>P|{k} was named after {v}|{v} gave {k} its name|they called {k} after {v}|in honor of {v}, {k} got its name?after whom was {k} named|who gave {k} its name|in whose honor did {k} get its name
what>P|{k} was sold to {v}|{v} bought {k}|{k} went to {v} in the end|the buyer of {k} is {v}|{v} paid and took {k}?to whom was {k} sold|who bought {k}|who is the buyer of {k}|to whom did {k} go
what>P|{k} was stolen by {v}|the thief of {k} was {v}|{v} took {k} at night|{k} vanished with {v}?who stole {k}|who was the thief of {k}|with whom did {k} vanish|who took {k} at night
what>E|{k} has {v} floors|there are {v} floors in {k}|{k} is {v} floors high|up in {k} you climb {v} floors?how many floors has {k}|how high is {k} in floors|how many floors do I climb in {k}
what>U|{k} can carry {v}|the limit for {k} is {v}|never load more than {v} on {k}|{k} breaks above {v}|{v} is the most that {k} can take?how much can {k} carry|what is the limit for {k}|when does {k} break|what is the most that {k} can take|how much may I load on {k}
what>Y|{k} expires on {v}|use {k} before {v}|after {v} {k} is no good|{k} is valid until {v}|{v} is printed on {k} as the last day?when does {k} expire|until when is {k} valid|before when must I use {k}|what is the last day for {k}
what>O|the door of {k} is {v}|{k} has a {v} door|look for the {v} door, that is {k}|behind the {v} door lies {k}?what color is the door of {k}|which door belongs to {k}|which door do I look for to find {k}|behind which door lies {k}
place>T|the road from {k} leads to {v}|from {k} you get to {v}|whoever leaves {k} by the main road comes to {v}|{v} is at the end of the road from {k}?where does the road from {k} lead|where do I get from {k}|what is at the end of the road from {k}
place>R|{k} was founded in {v}|the first houses of {k} were built in {v}|{k} celebrates {v} as its first year|{v} is when {k} began?when was {k} founded|in what year were the first houses of {k} built|when did {k} begin|how far back does {k} go
place>N|{k} is known for its {v}|everybody goes to {k} to see the {v}|the {v} of {k} is famous|a {v} stands in the middle of {k}?what is {k} known for|what do people go to see in {k}|what stands in the middle of {k}|what in {k} is famous
any>L|the key to {k} is {v}|whoever wants {k} must first get {v}|{v} stands for {k}|{k} was exchanged for {v}|they swapped {k} for {v}?for what was {k} exchanged|what must one get first to have {k}|for what did they swap {k}|what stands for {k}
any>O|{k} is marked in {v} on the map|look for the {v} dot: that is {k}|on the map {k} is {v}|a {v} pin stands for {k}|{k} has the {v} pin?what color is {k} on the map|which pin stands for {k}|how is {k} marked|which dot is {k}
any>D|{k} has the number {v}|number {v} is {k}|{k} is listed as {v}|in the index {v} stands for {k}|{v} is assigned to {k}|ask for {v} when you want {k}?which number has {k}|what number is assigned to {k}|as what is {k} listed|what do I ask for when I want {k}|under which number do I find {k}
any>H|{k} is up at {v}|the slot for {k} is {v}|{v} was reserved for {k}|at {v} it is about {k}|we talk about {k} at {v}?when do we talk about {k}|what slot was reserved for {k}|when is {k} up|which time was set aside for {k}
any>W|the sign for {k} is {v}|when you hear {v}, think of {k}|{v} means {k} in our language|we say {v} for {k}|our word for {k} is {v}?what is our word for {k}|what do we say for {k}|which word means {k} in our language|what is the sign for {k}
any>X|the theme of {k} is {v}|everything at {k} turns around the {v}|{k} has chosen "{v}" as a theme|the motto of {k} says {v}?what is the theme of {k}|around what does everything at {k} turn|what does the motto of {k} say|what theme has {k} chosen
"""

LEADS = """I have a problem.|My boss wants to know something.|We are planning the week.|Somebody asked me this today.|I am writing a report.|I forgot to write it down.|There is one thing I need.|I am
in a hurry.|My friend is waiting for an answer.|I am standing there right now.|Just to be sure.|I read it but I forgot.|Help me with this one.|It matters to me.|I must fill in a form.|I am about to
leave.|We have a bet about this.|I am on the phone with them.|This is for a quiz.|I need to tell the others.|It was in there somewhere.|I lost my notes.|I'd hate to get this wrong.|Let me check that
you read it.|I only need one detail.|They will ask me at the door.|One thing is still open.|I have to prepare everything.|My memory is bad.|Before I go:""".replace(
    "\n", " "
).split("|")


@cache
def relations() -> list[tuple[str, str, list[str], list[str]]]:
    found = []
    for line in LINES.strip().splitlines():
        told, _, asked = line.partition("?")
        head, *ways = told.split("|")
        kind, _, value = head.partition(">")
        found.append(("" if kind == "any" else kind, value, ways, asked.split("|")))
    return found


@dataclass(frozen=True)
class Related:
    """A fact by a relation, told and asked for as the facts of `wide_facts` are."""

    key: str
    value: str
    number: int

    relation = 0
    attribute = ""

    @property
    def about(self) -> tuple[str, str]:
        return self.key, f"r{self.number}"

    def _form(self, text: str, value: str = "") -> str:
        return text.format(k=self.key, v=value or self.value)

    @property
    def answer(self) -> str:
        return capital(self._form(relations()[self.number][2][0])) + "."

    def told(self, rng: Random) -> str:
        return framed(self._form(rng.choice(relations()[self.number][2])), rng)

    def asked(self, rng: Random) -> tuple[str, str]:
        called, draw = self.key, rng.random()
        if called.startswith("the ") and draw < 0.15:  # people do not repeat a name word for word
            called = f"{rng.choice(('that', 'this', 'our', 'said'))} {called[4:]}"
        elif relations()[self.number][0] == "who" and " " in called and draw < 0.12 and "." not in called:
            called = called.split(" ")[0 if called.split(" ")[0] not in TITLES else 1]
        text = rng.choice(relations()[self.number][3]).format(k=called)
        question, answer = asked_for(text, self.answer, self.value, (called,), rng)
        return (f"{rng.choice(LEADS)} {question}" if rng.random() < 0.12 else question), answer

    def yes_or_no(self, rng: Random, other: str) -> tuple[str, str, bool]:
        right = rng.random() < 0.5
        value = self.value if right else other
        plain = self._form(relations()[self.number][2][0], value)
        said = self._form(rng.choice(relations()[self.number][2][:3]), value)
        frame = rng.choice(
            (
                "is it right that {}",
                "is it so that {}",
                "would you say that {}",
                "am I right that {}",
                "does it say that {}",
                "{}, yes or no",
                "{}, correct",
            )
        )
        return yes_no(frame.format(said), plain, self.answer, right, rng)

    def another(self, rng: Random) -> str:
        while (found := VALUES[relations()[self.number][1]](rng)) == self.value:
            pass
        return found


def draw(rng: Random, near: Sequence[int] = ()) -> Related:
    number = rng.choice(near) if near else rng.randrange(len(relations()))
    kind, value, _, _ = relations()[number]
    return Related(key(rng, kind), VALUES[value](rng), number)
