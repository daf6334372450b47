"""Errands that a tool is for: tools | what they say of themselves | what people say, parts of it between `;`.

Holes are those of `wide_frames`; `{~}` is a time of day that goes into two numbers, the hour and the minute.
"""

# ruff: noqa: E501  (an errand stands in one line)

LINES = """
ring_bell schedule_bell plan_chime|Rings the bell at a time of day;Sets when the bell rings|let the bell go at {~};the bell has to sound at {~};I want to hear the bell when it is {~}
wake_guest morning_call rouse_sleeper|Wakes somebody up;Arranges a wake-up call|{@guest} must be out of bed by {~};get {@guest} up at {~};knock on the door of {@guest} at {~}
start_oven preheat_oven schedule_baking|Turns the oven on at a given time;Heats the oven|the oven should be hot, {#degrees} degrees, by {~};preheat to {#degrees} degrees for {~};I put the cake in at {~}, give me {#degrees} degrees
close_shutters lower_blinds darken_room|Closes the shutters of a room;Lets down the blinds|keep the sun out of the {room} from {~} on;make the {room} dark at {~};no light in the {room} after {~}, please
record_program tape_show capture_broadcast|Records something from television;Tapes a show|I cannot watch the {film_genre} at {~}, keep it for me;there is {film_genre.a} at {~} that I do not want to miss;save the {film_genre} that comes at {~}
add_train_stop plan_departure note_departure|Stores when a train leaves;Notes a departure|we leave {!place} at {~};departure from {!place} is {~};the train out of {!place} goes at {~}
take_booking hold_table seat_party|Takes the booking of a table;Seats a party in the restaurant|{#guests} people for dinner at {~}, name of {@guest};can {@guest} eat with you at {~}, there are {#guests} of them;{@guest} and friends, {#guests} in all, come in at {~}
book_lesson arrange_class schedule_lesson|Arranges a music or language lesson;Books a class with a teacher|I want to learn the {instrument} with {@teacher} on {weekday};is {@teacher} free on {weekday} for some {instrument};{weekday} with {@teacher}, I bring my {instrument}
tune_piano service_instrument fix_instrument|Has an instrument tuned or repaired;Looks after instruments|my {instrument} sounds awful;somebody has to look at the {instrument};the {instrument} is out of tune
hire_musician find_player audition_player|Finds somebody who plays an instrument;Engages musicians|we need someone on the {instrument} for {#euros} euros;who can play {instrument} with us, we pay {#euros};looking for a {instrument} player, fee {#euros}
water_plants irrigate sprinkle|Gives water to plants;Irrigates a bed|the {plant} looks thirsty, {#liters} liters should do;give the {plant} {#liters} liters;the leaves of the {plant} hang down, pour {#liters} liters on it
plant_trees order_saplings reforest|Plants trees in a place;Orders young trees|put {#trees} {tree.s} along the road in {!place};{!place} wants more green, {#trees} {tree.s};we would like {#trees} young {tree.s} near {!place}
prune_tree trim_branches cut_back|Cuts the branches of a tree;Prunes trees|the {tree} grows into my window;the branches of the {tree} are too long;somebody should shorten the {tree}
spray_pests fight_insects call_exterminator|Gets rid of insects;Fights pests|there are {insect.s} in the {room};help, {insect.s} all over the {room};the {room} is full of {insect.s}
rescue_animal report_stray animal_emergency|Sends help for an animal;Reports an animal in trouble|{animal.a} is stuck on {^street};I found {animal.a} that cannot walk, {^street};someone come to {^street}, {animal.a} is hurt
log_sighting report_bird add_observation|Stores which bird was seen where;Keeps the list of birds|I just saw {bird.a} in {!place};{bird.a} flew over {!place} today;add {bird.a}, I was in {!place}
groom_pet wash_dog pet_salon|Washes and brushes a pet;Books a bath for a pet|{^dog} smells, {breed.a};my {breed} {^dog} needs a haircut;make {^dog} pretty again, he is {breed.a}
walk_dog dog_walker send_walker|Takes a dog for a walk;Sends somebody to walk the dog|{^dog} has to go out for {#minutes} minutes;nobody has time for {^dog} today, {#minutes} minutes in the park would do;take {^dog} around the block, {#minutes} minutes
adopt_pet find_pet_home choose_pet|Finds a new home for a pet;Adopts an animal|we would love to have {pet.a};our children want {pet.a};is there {pet.a} that needs a home
order_feed buy_fodder stock_feed|Orders food for farm animals;Buys feed|the {livestock.s} have nothing left to eat, {#sacks} sacks please;{#sacks} bags for the {livestock.s};we need {#sacks} sacks of feed for our {livestock.s}
shear_flock treat_herd call_herdsman|Has a herd looked after;Sends a man for the herd|all {#pieces} {livestock.s} need a treatment;someone must see to my {#pieces} {livestock.s};{#pieces} {livestock.s} are waiting for you
sell_catch offer_fish auction_catch|Offers fish for sale;Puts a catch on the market|I have {#kilos} kilos of {fish.s} to get rid of;who wants {#kilos} kg of fresh {fish.s};{#kilos} kilos of {fish.s}, straight from the boat
order_flowers send_bouquet deliver_flowers|Sends flowers to somebody;Delivers a bouquet|{@contact} should get {flower.s} for the anniversary;surprise {@contact} with {flower.s};a bunch of {flower.s} to {@contact}
bake_order order_bread reserve_loaf|Orders something from the bakery;Reserves baked goods|keep {#pieces} {bread.s} for me;I pick up {#pieces} {bread.s} tomorrow;{#pieces} {bread.s} for the office breakfast
order_cheese cut_cheese cheese_counter|Takes an order at the cheese counter;Cuts cheese|{#kilos} kilos of {cheese} in one piece;could I get {#kilos} kg of that {cheese};slice me {#kilos} kilos of {cheese}
pour_drink serve_drink order_at_bar|Serves something to drink;Takes an order at the bar|I am thirsty, {drink} please;bring {drink} to table {#table};table {#table} wants {drink}
buy_wine fill_cellar order_wine|Buys wine for the cellar;Orders bottles of wine|{#bottles} bottles of {wine};the cellar needs {#bottles} more of the {wine};get us {#bottles} bottles of that {wine}
cook_meal kitchen_order order_dish|Tells the kitchen to cook something;Orders a meal|I could eat {dish} now;{dish} for {#guests};make {dish}, we are {#guests} people
plan_dessert add_dessert serve_sweet|Chooses what comes after the meal;Plans a dessert|something sweet to finish, {dessert};after dinner we want {dessert};the guests would love {dessert}
mix_sauce add_condiment order_sauce|Adds a sauce to the order;Orders a condiment|it is too dry without {sauce};a bit more {sauce} on it;do not forget the {sauce}
check_allergy filter_allergen warn_guest|Warns the kitchen of an allergy;Stores what a guest may not eat|{@guest} gets ill from {allergen};no {allergen} for {@guest};{@guest} cannot have any {allergen}
buy_spices restock_spice grind_spice|Buys herbs and spices;Refills the spice rack|we ran out of {herb};the jar of {herb} is empty;get some {herb} for the kitchen
harvest_crop bring_in_crop start_harvest|Brings in a crop;Starts the harvest of a field|the {grain} on the {#acres} hectares is ready;{#acres} hectares of {grain} must be cut before the rain;go and get the {grain} off the field, {#acres} hectares
mill_grain grind_flour order_flour|Grinds grain into flour;Works the mill|turn {#sacks} sacks of {grain} into flour;{#sacks} sacks of {grain} are waiting for the stones;I have {#sacks} bags of {grain} to be ground
quarry_order order_blocks request_slabs|Orders blocks of stone;Requests slabs from the pit|we need {#tonnes} tonnes of {stone} for the facade;{#tonnes} tonnes of {stone} by next week;have {#tonnes} tonnes of {stone} cut
saw_boards order_planks cut_lumber|Orders boards from the sawmill;Cuts wood to length|{#meters} meters of {wood}, please;the shelf takes {#meters} meters of {wood};cut me {#meters} m of {wood}
melt_scrap sell_scrap weigh_scrap|Buys old metal;Takes in scrap|I have {#kilos} kilos of old {metal};what do you give me for {#kilos} kg of {metal};{#kilos} kilos of {metal} to melt down
sew_garment order_tailoring tailor_made|Has clothes made;Orders from the tailor|I want {garment.a} of {fabric};make me {garment.a}, in {fabric};{garment.a} for the wedding, {fabric} would be nice
mend_clothes repair_clothing stitch_up|Mends torn clothes;Repairs what is worn out|my {garment} has a hole;the {garment} is torn at the sleeve;can you stitch my {garment}
resole_shoes cobbler_job fix_heels|Repairs shoes;Puts new soles on|my {shoe.s} let the water in;the heels of my {shoe.s} are gone;the {shoe.s} need new soles
dye_cloth color_fabric change_shade|Dyes cloth in another color;Gives fabric a new color|make the {fabric} {colour};I would like this {fabric} in {colour};the {fabric} should not be white but {colour}
set_gem mount_jewel order_ring|Sets a jewel in a ring;Works on jewelry|put {gem.a} into grandmother's ring;I dream of a ring with {gem.a};the ring lost its stone, I want {gem.a} in it
lend_tool borrow_tool tool_library|Lends tools to people;Hands out tools|can I have the {tool} for {#days} days;I need {tool.a} until I am done, {#days} days;{#days} days with your {tool} would help me
return_tool take_back_tool check_in_tool|Takes back what was borrowed;Books a tool in again|here is your {tool} again;I am done with the {tool};put the {tool} back on the shelf
order_part buy_spare find_component|Orders a spare part;Finds parts for machines|the {component} is gone, get another;my engine needs a new {component};we cannot go on without {component.a}
tow_vehicle roadside_help send_tow_truck|Sends help to the roadside;Tows a broken vehicle|my {vehicle} stopped on the {road_type};I am stranded on the {road_type} with {vehicle.a};the {vehicle} will not go any further, we are at the {road_type}
rent_vehicle hire_car lend_vehicle|Rents out vehicles;Hires something to drive|I need {vehicle.a} for {#days} days;{#days} days with {vehicle.a}, what have you got;could I drive {vehicle.a} for {#days} days
rent_boat hire_boat charter_boat|Rents out boats;Charters something that floats|we want to go on the water in {boat.a} for {#hours} hours;{boat.a} for {#hours} hours, please;{#hours} hours on the lake with {boat.a}
charter_flight book_pilot hire_aircraft|Charters something that flies;Books a flight with a pilot|take {#passengers} of us up in {aircraft.a};we are {#passengers} and want {aircraft.a};{aircraft.a} for {#passengers} people
buy_fare get_pass ticket_machine|Sells tickets for travel;Prints a ticket to ride|one {transport_mode} ticket to {!place};I have to get to {!place} by {transport_mode};how do I pay for the {transport_mode} to {!place}
report_roadblock close_road road_warning|Warns of trouble on a road;Closes a road|nobody gets through the {road_type}, {obstacle.a};{obstacle.a} on the {road_type};warn the drivers: {obstacle.a}, at the {road_type}
call_plumber send_handyman request_repair|Sends somebody who repairs things in the house;Requests a repair at home|there is {defect} in the {room};the {room} has {defect};can somebody come, {defect}, {room}
service_appliance fix_appliance appliance_repair|Repairs machines of the household;Looks after appliances|my {appliance} only makes noises;the {appliance} died this morning;nothing happens when I turn on the {appliance}
book_service hire_contractor order_work|Books workers for the house;Hires a contractor|we need {service} for {#euros} euros at most;who does {service} here, I can pay {#euros};{service}, and not more than {#euros} euros
paint_wall repaint_room order_painter|Has a room painted;Paints walls|the {room} should be {colour};I am tired of the walls in the {room}, make them {colour};{colour} for the {room}
deliver_furniture order_furniture buy_furniture|Brings furniture;Sells furniture|we want {furniture.a} for the {room};the {room} is empty, bring {furniture.a};{furniture.a} would look good in the {room}
rent_lodging find_bed book_stay|Finds a place to sleep;Books a stay|{#days} nights in {accommodation.a};we would like to sleep in {accommodation.a}, {#days} nights;is there {accommodation.a} for {#days} nights
report_noise silence_neighbors noise_complaint|Takes complaints about noise;Reports a disturbance|I cannot sleep for all that {noise};there is {noise} again on floor {#floor};floor {#floor}, {noise}, make it stop
report_odor check_smell smell_alert|Reports a strange smell;Has a smell looked into|it smells of {smell} in the {room};the {room} reeks of {smell};there is {smell} in the air of the {room}
report_leak gas_alarm chemical_alert|Reports that something dangerous escaped;Raises the alarm for a spill|{chemical} ran out in the {building};we spilled {#liters} liters of {chemical};there is {chemical} all over the floor of the {building}
order_fuel refill_tank deliver_fuel|Brings fuel;Fills a tank|we need {#liters} liters of {fuel};the tank is nearly dry, {#liters} liters of {fuel};bring {fuel}, {#liters} liters
see_doctor medical_visit book_consultation|Arranges a visit to a doctor;Books a consultation|{@patient} has {symptom} since yesterday;{symptom} again, please find time for {@patient};{@patient} is not well, {symptom}
renew_prescription order_medication pharmacy_order|Orders medicine from the pharmacy;Renews a prescription|I am out of {medicine};my {medicine} is nearly finished, {#doses} tablets;could you send {#doses} more of my {medicine}
schedule_therapy book_treatment plan_treatment|Books a treatment;Plans a therapy|my back needs {treatment} on {weekday};{weekday} would be good for {treatment};the doctor wants {treatment}, is {weekday} free
report_injury log_accident injury_report|Writes down that somebody got hurt;Keeps the list of accidents|{@patient} hurt the {body_part} at work;{@patient} fell on the {body_part};the {body_part} of {@patient} is bleeding
report_theft file_charge police_report|Takes down what was stolen or done;Files a report with the police|somebody took my {gadget} at {!place};my {gadget} is gone, it happened in {!place};I was robbed in {!place}, the {gadget}
lost_and_found report_lost search_lost|Looks for lost things;Writes down what was left behind|I left my {bag} in the {transport_mode};has anybody seen {bag.a}, I was in the {transport_mode};my {bag} is still in the {transport_mode}
unlock_phone support_device fix_gadget|Helps with electronic devices;Repairs gadgets|my {gadget} shows nothing but black;the {gadget} is frozen;I dropped the {gadget}
install_program add_software deploy_app|Installs programs;Puts software on a computer|I need {software.a} on {^server};put {software.a} on {^server};{^server} still has no {software}
export_file convert_document save_as|Saves a document in another format;Converts files|I want this as {file_format};my boss only reads {file_format};turn it into {file_format}
translate_letter find_interpreter interpret|Translates into a language;Finds somebody who speaks a language|nobody here understands {language};put this into {language};we have guests who only speak {language}
enroll_pupil join_class sign_up_course|Signs somebody up for a course;Enrolls people|{@apprentice} wants to study {science};put {@apprentice} down for {science};{@apprentice} is interested in {science}
grade_exam enter_mark record_score|Stores the result of an exam;Enters a mark|{@apprentice} got {#score} points in {subject};{#score} for {@apprentice}, {subject};in {subject} {@apprentice} has {#score} points
borrow_book reserve_book library_loan|Lends books;Reserves something to read|may I take "{^book}" home for {#weeks} weeks;I would like to read "{^book}", {#weeks} weeks are enough;lend me "{^book}" for {#weeks} weeks
find_movie suggest_film movie_night|Suggests what to watch;Finds a film|we are in the mood for {film_genre.a};is there {film_genre.a} for tonight;show me {film_genre.a}
play_track queue_song put_on_music|Plays music;Puts a song on|I want to hear "{^song}";turn on "{^song}" at {#stars};"{^song}" again, please
book_band hire_band engage_act|Books musicians for an evening;Hires a band|get {^band} for the {event};{^band} should play at our {event};for the {event} we would love {^band}
plan_party arrange_celebration set_theme|Plans a celebration;Arranges a party|{event.a} for {#guests} people, all about {theme};{#guests} guests, {theme}, it is {event.a};we want {theme} for the {event}, {#guests} are coming
pick_game start_game game_evening|Starts a game;Chooses what to play|let us play {game};{#members} of us want to play {game};how about some {game}
join_team sign_player register_athlete|Signs up an athlete;Puts somebody in a team|{@winner} wants to do {sport};{@winner} is good at {sport}, take {@winner};{sport} is what {@winner} wants to try
enter_result report_match log_match|Stores how a match ended;Keeps the results|{^team} won with {#goals} goals;{#goals} goals for {^team};{^team} scored {#goals} times today
place_bet back_horse take_wager|Takes a bet on a race;Puts money on a horse|{#dollars} dollars on {^horse};I think {^horse} will win, {#dollars} dollars;put {#dollars} on {^horse}
donate_money support_cause pledge|Gives money to a good cause;Stores a pledge|I would like to give {#dollars} dollars to {^project};{^project} can have {#dollars} dollars from me;{#dollars} dollars for {^project}
change_money swap_currency exchange_cash|Changes money;Swaps one currency for another|I need {currency.s} for {#euros} euros;give me {currency.s}, here are {#euros} euros;{#euros} euros into {currency.s}
open_account apply_loan lend_money|Lends money;Opens a loan|{^company} needs {#dollars} dollars for {#years} years;a credit of {#dollars} dollars for {^company}, {#years} years;lend {^company} {#dollars} dollars, they pay it back in {#years} years
post_advert list_for_sale put_up_ad|Puts an advertisement in the paper;Lists something for sale|who buys my {furniture} for {#euros} euros;{furniture.a} to sell, {#euros} euros;I want to get rid of the {furniture}, {#euros} euros
hire_worker post_vacancy find_staff|Looks for workers;Posts a vacancy|we are short of {profession.a};do you know {profession.a} who wants a job;our {profession} left, find another
train_troops assign_unit deploy_unit|Assigns somebody to a unit;Moves people in the army|{@apprentice} goes to the {unit_of_army};the {unit_of_army} takes {@apprentice};send {@apprentice} to the {unit_of_army}
promote_officer award_rank give_rank|Gives somebody a higher rank;Promotes soldiers|make {@apprentice} {rank};from today {@apprentice} is {rank};{@apprentice} deserves to be {rank}
show_forecast weather_check sky_report|Tells what the weather will be;Shows the forecast|will there be {weather} in {!place};is {weather} coming to {!place};I fear {weather}, how does it look in {!place}
warn_disaster send_alert raise_warning|Warns people of a danger;Sends out an alert|{disaster.a} is coming to {!place};tell everybody in {!place} about the {disaster};{!place} must know, {disaster.a}
point_telescope observe_sky track_object|Turns the telescope to something in the sky;Follows a heavenly body|I want to look at {planet};let us see {planet} tonight;find {planet} for me
ship_goods dispatch_cargo send_freight|Sends goods by ship or truck;Dispatches a load|{#tonnes} tonnes of {goods} must get to {!place};get {#tonnes} tonnes of {goods} on the way to {!place};{!place} is waiting for {#tonnes} tonnes of {goods}
count_stock check_inventory stock_level|Tells how much there is in the store;Counts what is on the shelves|how many {fastener.s} do we have;are there any {fastener.s} left;I wonder if the {fastener.s} will last
order_supplies restock_office buy_stationery|Orders what the office needs;Buys paper and pens|we are out of {stationery.s}, {#pieces} please;{#pieces} {stationery.s} for the second floor;nobody finds {stationery.s} any more, get {#pieces}
award_prize hand_over_prize give_award|Hands over a prize;Keeps who won what|{@winner} gets {gift.a};give {gift.a} to {@winner};the {gift} goes to {@winner}
show_exhibit move_exhibit loan_exhibit|Moves things of a museum;Lends an exhibit|the {^museum} wants our {exhibit};send the {exhibit} to the {^museum};could the {^museum} have the {exhibit} for a while
register_find log_artifact catalog_find|Stores what was dug up;Catalogs finds|we found {find.a}, {#depth} meters down;{find.a} came out of the ground at {#depth} meters;{#depth} meters deep there was {find.a}
reserve_ride attraction_pass skip_line|Reserves a place at an attraction;Sells passes in the park|{#guests} of us want to go on the {attraction};is the {attraction} free for {#guests};let {#guests} people into the {attraction}
seat_singer cast_voice fill_choir|Finds singers;Fills a place in the choir|we have no {voice} for the concert;the choir is short of {voice.a};find {voice.a} before Sunday
send_greeting write_card holiday_card|Sends a card;Writes greetings|wish {@contact} a happy {holiday};{@contact} should hear from us at {holiday};a card to {@contact} for {holiday}
set_timer count_down kitchen_clock|Counts down minutes;Rings after some minutes|tell me when {#minutes} minutes are over;the eggs need {#minutes} minutes;ring in {#minutes} minutes
change_heating set_climate regulate_temperature|Makes a room warmer or colder;Regulates the heating|I am freezing in the {room}, {#degrees} degrees please;the {room} should have {#degrees} degrees;{#degrees} degrees in the {room}
page_person call_out announce|Calls somebody over the loudspeaker;Makes an announcement|{@guest} should come to gate {#gate};we are all waiting for {@guest} at gate {#gate};where is {@guest}, gate {#gate} closes
"""
