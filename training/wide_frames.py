"""Sentences that hold several values of `wide_members` at once, as people write them.

In braces: a kind's first name (with `.a` the member and its article, with `.s` the plural), `#` a number, `@` a person, `^` a given
name, `!` one of the others. Nothing else of a sentence says what the key will be.
"""

# ruff: noqa: E501  (a frame stands in one line)

FRAMES = """
The {^ship} left {!place} at {!time} with {#crew} hands on board, {@captain} in command.
{@captain} took the {^ship} out with {#tonnes} tonnes of {goods} below deck.
{#tonnes} tonnes of {goods} for {!place}, and the {^ship} is two days behind.
We cut {#tonnes} tonnes of {stone} this week and {@foreman} is pleased.
{@foreman} reports {#tonnes} tonnes of {stone}; {#injured} hurt.
Loaded {#tonnes} t of {metal} for {^company}, driver {@driver}.
{@driver} brought {#boxes} crates of {fruit.s} over from {!place} on {!date}.
Sold: {#kilos} kilos of {cheese} to {@buyer} at {!price} a kilo.
Got {#kilos} kg of {fish.s} in the net, sold the lot to {@buyer} in {!place}.
{@farmer} sowed {#acres} hectares of {grain} behind the {building}.
The {vegetable.s} of {@farmer} filled {#sacks} sacks, after {#weeks} weeks of {weather}.
{@chef} needs {#kilos} kilos of {ingredient} for the {dish}, dinner is for {#guests} people.
Table {#table}: {#pieces} times {dish}, then {dessert}, and a {drink}. Paid by {payment}.
At {^restaurant} {@guest} had the {dish} and complained about the {sauce}.
Tonight at the {^theatre}: "{^play}", with {@composer} as {voice}. {#seats} seats.
{^band} plays {music} at {^pub} on {!date}, tickets {#euros} euros.
{@teacher} teaches {instrument} to {#pupils} children on {weekday}.
{@teacher} gives {language} lessons in {^school}, room {#room_number}.
Her {relative} plays the {instrument} and collects {stationery.s}.
{@patient} came with {symptom}, {@doctor} thinks it is {illness} and prescribed {medicine}, {#doses} tablets a day.
Ward round: {@patient}, {illness}, {#degrees} degrees, on {medicine}.
{@patient} broke the {body_part} in a {sport} match; {treatment} for {#weeks} weeks.
The vet saw {pet.a} called {^dog}: {symptom}. Fee {#euros} euros.
Lost near {!place}: {pet.a}, answers to {^dog}. Reward of {#dollars} dollars. Call {@owner}.
{@owner} is looking for {breed.a}, {#years} years old at most.
For sale: {furniture.a} of {wood}, {#years} years old, {#euros} euros, ask {@seller}.
For sale, {vehicle.a} in {colour}, {#kilometers} km on the clock, runs on {fuel}.
{@seller} wants {#euros} for the {vehicle}, it has {#wheels} doors.
To let: {accommodation.a} with {#rooms} rooms near {^lake}, {#euros} euros a week.
{@guest} checked in at the {^hotel}, room {#room_number}, {#days} nights, came by {transport_mode}.
We flew with {^airline} from {^airport}, gate {#gate}, {#minutes} minutes late because of {weather}.
The {transport_mode} from {!place} leaves from platform {#gate} at {!time}.
{@mechanic} replaced the {component} of the {vehicle} for {#euros} euros, it took {#hours} hours.
The {appliance} is broken again, {defect}. {@mechanic} comes on {weekday}.
My {gadget} shows {#errors} errors since the update, order {#order_number}.
Ticket {#order_number}: {gadget}, {defect}, bought at {^company}.
{@suspect} was arrested for {crime} in {!place}; they found {weapon.a} in the {bag}.
{crime} on {^street}, {#dollars} dollars gone, {@witness} saw {vehicle.a}.
Between the {room} and the {room_2} police found {gem.a}.
{@winner} won the {sport} final with {#score} points, before {#guests} people.
{^team} beat us, {#goals} goals, {@judge} gave nothing. {weather} all the time.
{@rider} on {^horse} took {gift.a} after {#laps} laps.
{@artist} shows {artwork.a} in the {^museum}, insured for {#dollars} dollars.
The {^museum} bought {find.a}, {#years} years old, dug up near {!place}.
{exhibit.a} from {continent} is on show, {#guests} visitors so far.
They dug up {find.a} of {metal} at a depth of {#depth} meters.
{@guide} led {#guests} people up {^mountain}, {#altitude} m, in {weather}.
We hiked the {^trail}, {#kilometers} km, and saw {bird.a} and {animal.a}.
{@witness} counted {#pieces} {bird.s} on the {^lake}.
Spotted: {bird.a} in {!place} on {!date}, {@witness}.
The {tree.s} along {^street} are full of {insect.s}, {@clerk} wants them gone in {#days} days.
{@clerk} planted {#trees} {tree.s} for the {event} on {!date}.
{event.a} at the {^hotel}, {#guests} guests, {flower.s} on every table, all in {colour}.
For the {event} we want {flower.s}, {dessert} and {music}.
{@host} gives {event.a} on {weekday}, the theme is {theme}.
Kids' party: {#pupils} children, {theme}, {flavour} ice cream, no {allergen}.
{@buyer} ordered {#pieces} {garment.s} in {colour}, made of {fabric}, with {pattern}.
A {garment} of {fabric}, size {#floor}, please wrap it, {@buyer} pays by {payment}.
{#meters} meters of {fabric} for {@buyer}, and some {fastener.s}.
{#bottles} bottles of {wine} from {!place}, {#degrees} degrees in the cellar.
The tank holds {#liters} liters of {fuel}, {^company} delivers on {weekday}.
{#liters} liters of {chemical} leaked in the {building}, {#injured} people hurt.
Caution: {gas} in the {room}, {@clerk} closed it for {#hours} hours.
{disaster.a} in {!place} on {!date}: {#injured} injured, cause {crop_damage}.
The {road_type} is closed for {#weeks} weeks after {disaster.a}.
{@architect} drew {building.a} in the {style} manner, {#floors} floors, {stone} in front.
They painted the {room} {colour}, {@mechanic} did the {service} for {#euros}.
{service} at the {^school}: {#hours} hours, {#euros} euros, {@mechanic}.
{@author} wrote "{^book}", {#pages} pages, about {subject}. It is {book_type.a}.
"{^film}" is {film_genre.a} of {#minutes} minutes by {@author}, in {language}.
{@apprentice} studies {science} and works as {profession.a} in {season}.
{@apprentice}, {#years}, from {nation}, speaks {language} and likes {hobby}.
He left {nation} in {month}, found work as {profession.a} and married a {profession_2}.
My {relative} moved to {nation}, sells {product} and believes in {religion}.
{^farm} has {#pieces} {livestock.s} and {#acres} acres of {grain}.
{@farmer} of {^farm} lost {#pieces} {livestock.s} to {animal.a}.
{#boxes} boxes of {product} for {^company}, invoice {#order_number}, paid in {currency.s}.
{@contact} rang: {#sacks} bags of {nut.s}, {!price} each, by {weekday}.
The choir needs {voice.a}; ask {@contact} before {!date}.
{@donor} gave {gift.a} and {#dollars} dollars to {^project}.
{^project} starts in {month} with {#members} people and {#dollars} dollars.
{^server} is down since {!time}, {@mechanic} blames {crop_damage}.
Send the {software} export as {file_format} to {!email}, {#pages} pages.
Section {tax_class}: {#pieces} {toy.s} at {!price}, row {#lane}.
{@buyer} wants {shoe.s} and {hat.a}, {#euros} euros at most.
The soup has {herb} and {meat} in it, serves {#eggs}, watch the {allergen}.
Cook {meat} with {mushroom.s} and {herb} in {oil} for {#minutes} minutes.
{boat.a} capsized on the {^river}, {#passengers} people aboard, wind from the {direction}.
{aircraft.a} landed at {!place}, pilot {@rider}, {#passengers} passengers, {fuel} low.
{@apprentice} swam {stroke} in lane {#lane}.
{@apprentice} joined the {unit_of_army} and was made {rank}.
{planet} stood in the {direction} at {!time}, seen by {@witness}.
{plant.a} on the sill of the {room} needs {#liters} liters a week.
All of us felt {emotion} when {@winner} won {gift.a}.
{@guest} hates {noise} and the smell of {smell}; move to floor {#floor}, please.
"""
