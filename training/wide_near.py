"""Tools that are near each other: all of a family have to do with the same things, and one of them does what is wanted.

Their arguments are of different kinds, a person and a message, a place and an amount; or of one kind, from whom and to whom. A family is
a head, `*names of the thing|members`, and a line for each tool: names | what it says of itself | names of places | requests.
No name is the examiner's (`held_words`).
"""

# ruff: noqa: E501, SIM905  (a tool stands in one line)

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from training import facts, wide, wide_choose, wide_copy, wide_more, wide_pick, wide_talk
from training.data_chat import Chat, Turn
from training.held_words import free, plain, taken
from training.wide_choose import DONE, NONE, _said
from training.wide_facts import capital, typed
from training.wide_long import system
from training.wide_talk import lines

Json = dict[str, Any]
HOLE = re.compile(r"\{([a-z]+2?)(\.a)?\}")
FAMILIES = """
*flowers blooms plants_wanted|roses,tulips,dahlias,lilies,ferns,orchids,geraniums,begonias,cyclamens,asters
moisten_bed give_water soak_soil|Gives water to plants|n:liters_of_water|the {x} in the {room} hang their heads, {n} liters;{n} liters for the {x} in the {room};pour {n} liters on those {x}, they stand in the {room}
send_bunch gift_bouquet flower_gift|Has flowers brought to somebody|p:gets_them for_whom|{p} should find {x} at the door;surprise {p} with {x};{x} to {p}, it is an anniversary
dig_in_plants set_out_plants fill_bed|Plants something in the garden|n:pieces_to_plant|put {n} {x} along the wall;{n} {x} for the bed by the gate;we want {n} more {x} in the ground
count_pots stock_of_plants greenhouse_stock|Tells how many plants are left in store||how many {x} are still in the greenhouse;do we have any {x} left to sell;look up the {x} for me
report_wilt plant_doctor leaf_trouble|Takes reports of sick plants|why:what_is_wrong|the {x} have {pest};something is wrong with the {x}, {pest};{pest} on the {x}
*parcel_content article_sent|lamp,carpet,typewriter,saddle,teapot,globe,violin,kettle,mirror,clock
dispatch_parcel post_parcel mail_out|Sends a parcel to somebody|p:addressee goes_to_person;town:goes_to_town|get the {x} to {p} in {town};the {x} has to go off to {town}, for {p};pack the {x}, {p} in {town} is waiting for it
trace_parcel follow_parcel where_is_parcel|Tells where a parcel is|code:parcel_code shipment_code|where is the {x}, the slip says {code};{code}, the {x}, has it left the depot;the {x} should be here by now, {code}
return_parcel give_back_goods take_back_order|Takes back what was bought|why:what_is_wrong grounds|I do not want to keep the {x}, {flaw};the {x} goes back, {flaw};{flaw}, so have the {x} collected
insure_parcel cover_parcel|Insures something that is sent|n:insured_sum worth|the {x} is worth {n} euros, make sure of it;if the {x} breaks I want {n} euros;cover the {x} for {n} euros
buy_article purchase_thing order_article|Buys something|n:at_most spending_limit|get me {x.a}, {n} euros at most;I need a new {x} and have {n} euros;find {x.a} for less than {n} euros and take it
*|
text_person short_message drop_line|Sends somebody a short message on the phone|p:addressee to_whom;msg:body wording|tell {p} that {msg};text {p}: {msg};let {p} know that {msg};{p} should hear that {msg};message to {p}: {msg}
phone_person ring_up dial_person|Calls somebody on the phone|p:called_person whom_to_ring|ring {p};get {p} on the line;I want to speak with {p} right now;give {p} a call
post_letter write_letter_to mail_letter|Writes a letter on paper|p:addressee;town:letter_town;msg:wording|write to {p} in {town} on paper that {msg};a letter to {p}, {town}: {msg};{p} in {town} gets a letter, {msg}
jot_down keep_note stick_note|Keeps a note for yourself|msg:note_text remember_this|note to myself: {msg};write down that {msg};I must not forget that {msg}
tell_everybody loudspeaker put_on_board|Tells something to all people in the house|msg:announcement_text wording|tell everybody that {msg};all of them should hear it: {msg};over the loudspeaker, please: {msg}
*|
nudge_me ring_later remind_at|Reminds you of something at a time|cmd:what_to_do;time:remind_at_time clock_time|do not let me forget to {cmd}, {time};at {time} I have to {cmd};remind me at {time} to {cmd}
give_chore hand_out_task delegate_task|Gives somebody a task|p:doer task_for;cmd:what_to_do chore|ask {p} to {cmd};{p} has to {cmd};{p} could {cmd}, put it on the list
strike_off tick_off close_chore|Marks a task as done|cmd:chore finished_chore|I did it: {cmd};cross this off: {cmd};{cmd}, that is finished
push_back delay_chore move_chore|Moves a task to another day|cmd:chore;date:new_day moved_to|I cannot {cmd} today, {date} is better;{cmd} on {date} instead;put it off until {date}: {cmd}
show_chores day_list what_is_open|Shows what is still to be done on a day|date:which_day day_shown|what is left to do on {date};show me the list for {date};is there anything to do on {date}
*|
move_money wire_sum transfer_to|Sends money to somebody|p:payee goes_to;n:sum_sent euros|{p} gets {n} euros from me;send {n} euros over to {p};I owe {p} {n} euros, pay it
ask_money request_sum claim_sum|Asks somebody for money|p:debtor asked_person;n:sum_asked euros|{p} still owes me {n} euros, ask for it;get {n} euros from {p};I want my {n} euros back from {p}
withdraw_cash cash_out get_notes|Gives out cash at a machine|n:cash_sum euros;town:machine_town|I need {n} euros in notes, I am in {town};{n} euros in cash, in {town};in {town}, {n} euros out of the machine
split_bill share_costs divide_sum|Divides a bill among people|n:bill_sum;m:heads people_paying|{n} euros for the {m} of us, who pays what;share {n} euros between {m} people;we are {m} and the bill says {n} euros
cap_spending set_budget_line limit_card|Sets how much may be spent|n:cap euros_at_most;what:spent_on purpose|no more than {n} euros for {what};{what} may cost {n} euros a month;stop me when {what} gets over {n} euros
*|
ride_from_to call_cab book_cab|Sends a car that takes people somewhere|town:pick_up_at from_here;town2:drop_at to_there|from {town} to {town2}, as fast as you can;I am in {town} and must get to {town2};take me to {town2}, I stand in {town}
how_far measure_route distance_of|Tells how far two places are apart|town:start_place;town2:end_place|how far is it from {town} to {town2};how many kilometers lie between {town} and {town2};{town} to {town2}, is that far
train_times rail_plan next_train|Tells when trains go|town:start_station;town2:end_station;date:travel_day|trains from {town} to {town2} on {date};when can I go to {town2} by rail on {date}, from {town};on {date} I leave {town} for {town2}, what goes on the rails
ticket_refund give_up_seat cancel_seat|Takes a ticket back|code:ticket_code;town:canceled_trip_to|I will not go to {town}, ticket {code};take back {code}, the trip to {town};{code} is no use to me, {town} is off
look_around sights_of what_to_see|Tells what there is to see in a place|town:visited_town;n:hours_free|I have {n} hours in {town}, what should I look at;{n} hours in {town}, show me something;what is worth seeing in {town} in {n} hours
*room_name which_room chamber|kitchen,cellar,nursery,study,hallway,attic,workshop,pantry,laundry,guest room
warm_up heat_room set_warmth|Makes a room warmer or colder|n:degrees_wanted|I freeze in the {x}, {n} degrees please;the {x} should have {n} degrees;{n} degrees for the {x}
dim_lamps light_level set_brightness|Sets how bright a room is|n:percent_bright|the {x} is too bright, {n} percent will do;{n} percent of light in the {x};lamps in the {x} down to {n} percent
sweep_room clean_up send_robot|Cleans the floor of a room|time:clean_at|crumbs all over the {x}, have it swept at {time};the {x} floor at {time}, please, it is a mess;clean the {x}, {time} would be good
paint_room new_paint repaint|Has a room painted|color:paint_shade wanted_color|I want the {x} in {color};make the walls of the {x} {color};{color} would suit the {x}
lock_room bolt_door shut_room|Locks or opens a door|p:opened_for;time:locked_from|nobody but {p} gets into the {x} after {time};bolt the {x} at {time}, {p} has the key;from {time} on the {x} is only for {p}
*dish_name food_wanted|goulash,lentil soup,onion tart,risotto,fish pie,dumplings,ratatouille,paella,pancakes,potato salad
cook_for kitchen_job make_food|Tells the kitchen to cook|n:helpings portions|make {x} for {n};{n} helpings of {x}, we are hungry;we are {n} and would like {x}
how_to_cook find_instructions cooking_steps|Shows how a dish is made||how does one make {x};I have never made {x}, show me the steps;what goes into {x} and in which order
bring_food food_to_door order_in|Brings food from a restaurant|firm:eating_house;town:brought_to|get {x} from {firm} over to {town};{firm} should bring {x} to {town};we are in {town} and want the {x} of {firm}
rate_dish judge_food give_stars|Stores how good a dish was|few:stars_given;firm:eating_house|the {x} at {firm} gets {few} stars from me;{few} stars for the {x}, {firm};I had {x} at {firm}, {few} stars
count_calories food_values energy_of|Tells how much energy is in food|n:grams|how heavy on the hips are {n} grams of {x};{n} grams of {x}, how many calories;is {x} fattening, I had {n} grams
*tool_name lent_thing|chisel,ladder,chainsaw,wheelbarrow,drill,spirit level,jack,pickaxe,sander,hand plane
lend_out hand_over_tool sign_out|Lends a tool to somebody|p:borrower;n:days_lent|{p} takes the {x} for {n} days;give {p} the {x}, {n} days;the {x} goes to {p}, back in {n} days
check_back_in tool_is_back sign_in_tool|Books a tool that came back|p:returned_by brought_by|{p} brought the {x} back;the {x} is here again, from {p};take the {x} off the list, {p} returned it
sharpen_tool service_tool fix_tool|Has a tool repaired|flaw:what_is_wrong fault_seen|the {x} is no good, {flaw};{flaw}, look at the {x};have the {x} seen to, {flaw}
buy_tool add_to_shelf get_new_tool|Buys tools for the store|n:how_many_bought|we need {n} more of the {x} kind;buy {x.a}, make it {n};{n} new ones, {x}
tool_place find_on_shelf where_is_tool|Tells where a tool lies||where did we put the {x};I cannot find the {x};which shelf is the {x} on
*animal_name which_animal|hedgehog,parrot,goat,donkey,tortoise,ferret,hen,rabbit,llama,goose
feed_animal fill_trough give_fodder|Feeds an animal|n:grams_of_food|{n} grams for the {x};the {x} looks hungry, {n} grams;fill the bowl of the {x} with {n} grams
call_vet animal_doctor treat_animal|Has an animal looked at by a vet|ill:sign_of_illness;p:keeper_name|the {x} of {p} has {ill};{ill}, it is the {x}, ask for {p};{p} is worried, the {x} has {ill}
find_keeper new_home give_away_animal|Finds somebody who takes an animal|town:home_town|who in {town} would take {x.a};{x.a} looks for a home in {town};our {x} needs new people, best in {town}
report_found stray_report found_animal|Reports an animal that was found|town:found_in;date:found_on|on {date} {x.a} ran up to me in {town};I picked up {x.a} in {town} on {date};{town}, {date}: {x.a} without an owner
sell_animal put_up_animal offer_animal|Offers an animal for sale|n:asking_price|I want {n} euros for the {x};the {x} is for sale, {n} euros;{n} euros and the {x} is yours, put that up
*|
plan_meeting fix_meeting arrange_talk|Arranges a meeting with somebody|p:met_person with_whom;date:meeting_day;time:meeting_time|sit down with {p} on {date} at {time};{date}, {time}, {p} and me in one room;I want to see {p}, {date} at {time}
call_off_meeting drop_meeting scrap_meeting|Cancels a meeting|p:with_whom;why:grounds stated_reason|I cannot see {p}, {reason};{reason}, so nothing comes of it with {p};tell them it is off with {p}, {reason}
write_minutes log_talk record_decision|Stores what was decided|p:said_by;msg:decision_text|{p} said that {msg}, put it on record;on record: {msg}, that was {p};for the minutes, {p}: {msg}
invite_more add_guest bring_along|Adds somebody to a meeting|p:extra_person;p2:their_host meeting_of|{p} should come to the talk with {p2};when I see {p2}, {p} sits in too;add {p}, it is the round of {p2}
free_hours open_slots who_is_free|Tells when somebody has time|p:whose_calendar;date:which_day|when does {p} have an hour on {date};is {p} busy on {date};look for a gap on {date} with {p}
*work_title title_of_work|{title}
borrow_work take_home loan_out|Lends a book|p:reader_name;n:weeks_lent|{p} would like "{x}" for {n} weeks;"{x}" goes home with {p}, {n} weeks;{n} weeks of "{x}" for {p}
reserve_work queue_for_book wait_list|Puts somebody on the waiting list for a book|p:waiting_reader|{p} wants "{x}" when it is back;keep "{x}" for {p};next in line for "{x}": {p}
review_work store_opinion note_opinion|Stores what somebody thinks of a book|p:reviewer;msg:opinion_text|{p} says of "{x}" that {msg};"{x}", in the words of {p}: {msg};{p} read "{x}" and writes: {msg}
shelve_work sort_in put_on_shelf|Puts a book on a shelf|n:shelf_no|"{x}" belongs on shelf {n};shelf {n} for "{x}";put "{x}" back, it is {n}
pay_late_fee settle_fine book_fine|Takes the fee for a late book|n:cents_due;p:late_reader|{p} was late with "{x}", {n} cents;{n} cents from {p} for "{x}";"{x}" was overdue, {p} pays {n} cents
*|
house_alarm guard_house arm_alarm|Turns the alarm of a house on or off|time:armed_from;town:house_town|guard the house in {town} from {time} on;the house in {town}, alarm on at {time};nobody is in {town} after {time}, watch the house
fire_call fire_engine report_fire|Calls the fire brigade|town:burning_at;what:what_burns|{town}, the {burn} is burning;smoke comes out of the {burn} in {town};flames in {town}, it is the {burn}
ambulance_call send_medic medic_to|Sends a doctor in an emergency|p:hurt_person;ill:sign_of_illness|{p} collapsed, {ill};quick, {p} has {ill};{ill}, it is {p}, send somebody
police_note report_stolen note_theft|Reports something stolen|p:robbed_person;what:stolen_thing|somebody took the {burn} of {p};the {burn} is gone, it belongs to {p};{p} was robbed, the {burn}
road_help tow_car breakdown_aid|Helps with a broken car|town:stranded_near;flaw:car_trouble|I am stuck near {town}, {flaw};{flaw}, and I am on the road to {town};the car stopped outside {town}, {flaw}
*song_name piece_wanted|{title}
play_piece put_on_song start_song|Plays a song in a room|room:played_in;few:loudness_step|"{x}" in the {room}, at {few};I want to hear "{x}", {room}, step {few};put "{x}" on in the {room}, loudness {few}
teach_piece learn_song practice_song|Plans a lesson for a song|p:learner;n:minutes_of_practice|{p} wants to learn "{x}", {n} minutes a day;practice "{x}" with {p} for {n} minutes;{n} minutes of "{x}" for {p}
wake_with_song song_alarm morning_song|Wakes you with a song|time:wake_time|get me up with "{x}" at {time};"{x}" should wake me, {time};at {time} I want to wake up to "{x}"
sing_text song_words show_words|Shows the words of a song||what are the words of "{x}";I forgot how "{x}" goes on, show it;we want to sing "{x}", give us the text
rate_song like_song give_song_points|Stores how you like a song|few:points_given|{few} points for "{x}";"{x}" is worth {few} points;I give "{x}" {few} points
*weather_sort kind_of_weather|hail,fog,thunder,sleet,drizzle,frost,gales,snow,heat,showers
sky_outlook tell_weather weather_in|Tells what the weather will be|town:asked_town;date:asked_day|will there be {x} in {town} on {date};{town}, {date}, do we get {x};I fear {x} in {town}, how does {date} look
warn_of_weather storm_alarm sound_warning|Warns people of bad weather|town:warned_town|tell the people of {town} that {x} is coming;{town} has to be warned of {x};{x} is on its way, let {town} know
log_weather note_weather store_reading|Stores what the weather was|town:measured_in_town;n:reading_taken|we had {x} in {town}, the meter said {n};{town}: {x}, {n} on the meter;write down {x} for {town}, reading {n}
what_to_wear clothes_advice pack_advice|Tells what to put on|town:traveled_to|what do I put on in {town} when there is {x};I am off to {town} and they have {x}, which coat;{x} in {town}, do I need boots
cover_garden protect_plants shield_bed|Covers plants before bad weather|time:covered_by|{x} tonight, cover the beds by {time};get the sheets over the beds before {time}, {x} is near;because of the {x}, have the garden covered at {time}
*picture_subject shown_thing|lighthouse,wedding cake,tram,old mill,market stall,waterfall,horse race,tower,ferry,snowman
take_photo snap_picture shoot_picture|Takes a photo|time:shot_at|get the {x} on film at {time};a photo of the {x} at {time};when it is {time}, snap the {x}
share_photo pass_on_picture show_photo_to|Sends a photo to somebody|p:sent_to_person|{p} wants the picture of the {x};let {p} have the photo with the {x};the one with the {x}, off to {p}
print_photo order_prints make_prints|Prints photos on paper|n:prints_wanted|{n} prints of the {x};the {x} on paper, {n} times;I would like the photo of the {x} {n} times to hang up
delete_photo throw_out_picture erase_picture|Deletes a photo|code:file_code|away with the {x}, it is {code};{code}, that blurred {x}, get rid of it;I never want to see the {x} again, {code}
tag_person name_in_photo who_is_it|Notes who is in a photo|p:person_shown|that is {p} in front of the {x};the one by the {x} is {p};put the name {p} on the picture with the {x}
*medicine_sort taken_drug|cough syrup,eye drops,iron pills,ointment,insulin,aspirin,nose spray,vitamins,sleeping pills,antacid
take_dose log_intake note_dose|Stores that somebody took a medicine|p:who_took_it;few:doses_taken|{p} had {few} of the {x};{few} times {x}, {p} took it;write down that {p} swallowed the {x}, {few} of it
dose_alarm pill_clock remember_pill|Reminds somebody to take a medicine|p:reminded_person;time:pill_time|{p} must not forget the {x} at {time};beep {p} at {time} for the {x};at {time} it is time for the {x}, tell {p}
fetch_medicine pharmacy_run refill_medicine|Gets medicine from the pharmacy|n:packs_wanted|the {x} is nearly finished, {n} packs;{n} packs of {x} from the pharmacy;we are out of {x}, bring {n}
ask_side_effects drug_facts leaflet_of|Tells what a medicine can do to you||does {x} make one tired;what do they say about {x} on the leaflet;is {x} bad for the stomach
stop_medicine end_course take_off_plan|Takes a medicine off the plan of somebody|p:taken_off_person;date:last_day_taken|no more {x} for {p} after {date};{p} is done with the {x} on {date};from {date} on {p} goes without {x}
*|
check_in_guest give_key hand_over_room|Lets a guest into a room|p:arriving_guest;m:room_no door_no key_no|{p} is here, room {m};the key of {m} for {p};put {p} into {m}
extend_stay more_nights stay_longer|Lets a guest stay longer|p:staying_guest;few:extra_nights|{p} wants {few} more nights;{few} nights longer for {p};let {p} stay on, {few} nights
guest_complaint note_trouble desk_report|Stores what a guest complains about|p:unhappy_guest;flaw:trouble_told|{p} says of the shower: {flaw};about the fan, from {p}: {flaw};{p} is not happy with the lamp, {flaw}
wake_guest_up morning_ring rouse_guest|Wakes a guest|m:room_no door_no key_no;time:wake_time|knock at {m} when it is {time};{time} for room {m}, they have to get up;ring {m} out of bed at {time}
bill_guest make_invoice charge_room|Writes the bill of a guest|m:room_no door_no key_no;n:sum_due|room {m} leaves, that makes {n} euros;{n} euros for {m}, write it out;the people in {m} want to pay, {n} euros
*|
book_court reserve_pitch keep_court|Reserves a place to play|what:kind_of_game;time:play_time|we want to play {game} at {time};{time}, {game}, is the place free then;keep us a place for {game}, {time}
find_partner match_players who_plays|Finds somebody to play with|what:kind_of_game;town:playing_town|nobody in {town} plays {game} with me;I look for somebody for {game} in {town};{game} in {town}, who joins in
enter_score note_result_of store_match|Stores how a game ended|p:winner_of_game;p2:loser_of_game|{p} beat {p2};{p2} lost to {p};put it down, {p} was better than {p2}
rent_gear lend_gear get_gear|Lends what one needs to play|what:kind_of_game;few:sets_lent|{few} sets of what one needs for {game};we have nothing for {game}, bring {few} sets;lend us {few} sets for {game}
book_trainer lesson_in coach_hour|Books a trainer|what:kind_of_game;p:trainer_wanted|I want to get better at {game}, with {p};{p} should teach me {game};an hour of {game} with {p}
*crop_sort sown_thing|barley,turnips,clover,lentils,mustard,pumpkins,beets,chicory,lupins,flax
sow_field plant_out put_in_seed|Sows a field|n:hectares_sown;town:field_near|{x} on {n} hectares near {town};sow {x}, {n} hectares, the field by {town};the land near {town}, {n} hectares, gets {x}
reap_field bring_in start_reaping|Brings in a harvest|date:reaping_day;p:reaper_name|{p} cuts the {x} on {date};get the {x} in on {date}, {p} has the machine;the {x} is ripe, {p} can start on {date}
sell_harvest offer_load market_load|Sells what was harvested|n:tonnes_sold;firm:buying_firm|{firm} takes {n} tonnes of {x};{n} tonnes of {x} for {firm};sell the {x} to {firm}, {n} tonnes
spread_manure feed_soil fertilize_land|Puts manure on a field|n:loads_spread|{n} loads for the {x};the {x} grow badly, give them {n} loads;spread {n} loads where the {x} stand
crop_price market_rate price_check|Tells what a crop costs now|town:market_town|what do they pay for {x} in {town};is {x} dear in {town} now;today's rate of {x} in {town}
"""


# -- values

STATES = lines("""the {n} is broken|the {n} is in the {m}|I will be {k} minutes late|we moved the {n} to the {m}|the {n} costs {k} euros|dinner is at {c}|the key is under the {n}|everything went well|the train is full|nobody came to the {n}|the {n} smells of {m}|we need {k} more
chairs|the {n} was sold|it is raining in {t}|the {n} starts at {c}|I found the {n}|room {k} is locked|the doctor said yes|{t} was lovely|we are out of {n}|the password is {r}|the dog is called {r}|gate {k} is closed|the {n} will be here on {w}|the {n} belongs to
the {m}|her flight is delayed|I love the {n}|the boss wants the {n} by {w}|the {a} {n} is ready|it was never about the {n}""")
ORDERS = lines("""bring the {n}|buy {k} eggs|water the {n}|call the {n} shop|paint the {m}|feed the cat|pick up the {n} in {t}|return the {n}|print {k} copies|fix the {n}|clean the {a} {n}|take the {n} to the {m}|close the windows|write to {r}|pay the rent|order {k} boxes of {n}|lock
the {m}|check the {n}|wrap the {n}|look for the {n}|charge the {n}|sell the old {n}|send the {n} to {t}|read chapter {k}""")
LISTS = {
    "room": "kitchen,cellar,hall,balcony,study,attic,garage,bedroom,conservatory", "pest": "brown spots,snails,white dust,yellow leaves,holes,lice",
    "flaw": "the handle is loose,it makes a noise,it does not start,it is cracked,a screw is missing,it smells burnt,it leaks,the wheel is bent",
    "ill": "a bad cough,a swollen leg,a high fever,a rash,no appetite,a bleeding cut,cramps", "burn": "barn,bicycle,caravan,toolbox,workshop,haystack,boat,trailer",
    "game": "squash,badminton,pelota,croquet,table tennis,curling,billiards,handball,bowls,padel",
    "what": "coffee,books,taxis,shoes,games,concerts,sweets,petrol", "color": "ochre,lilac,dark green,cream,teal,brick red,pale blue,ivory",
    "reason": "I am ill,the train is canceled,there is no room,my car broke down,I have to work,the child has a fever",
}  # fmt: skip


def _filled(texts: list[str]) -> Callable[[Random], str]:
    def draw(rng: Random) -> str:
        found = {
            "n": wide.noun(rng) if rng.random() < 0.8 else wide_copy.rare(rng), "m": wide.noun(rng), "k": str(rng.randint(2, 90)), "c": wide.clock(rng).removesuffix("."),
            "t": wide.town(rng), "r": capital(wide_copy.rare(rng)), "w": rng.choice(facts.DAYS), "a": wide.adjective(rng),
        }  # fmt: skip
        return rng.choice(texts).format(**found)

    return draw


def _numbered(low: int, high: int) -> Callable[[Random], int]:
    return lambda rng: rng.randint(low, high)


VALUES: dict[str, Callable[[Random], Any]] = {
    "p": lambda rng: wide.first_name(rng) if rng.random() < 0.4 else f"{wide.first_name(rng)} {wide.last_name(rng)}",
    "town": wide.town, "n": lambda rng: rng.randint(2, rng.choice((20, 95, 95, 900))), "m": _numbered(2, 12), "few": _numbered(2, 5), "date": wide.date, "time": wide.clock, "code": wide.code,
    "msg": _filled(STATES), "cmd": _filled(ORDERS), "firm": lambda rng: f"{wide.last_name(rng)}{rng.choice((' Brothers', ' & Sons', ' House', ''))}",
    "title": lambda rng: " ".join(map(capital, wide.phrase(rng).split())),
}  # fmt: skip
NUMBERS = ("n", "m", "few")
SAME = {"why": ("pest", "flaw", "reason"), "what": ("what", "burn", "game")}  # a place of which there are several lists
USUAL = {
    "p": "person name who recipient contact", "msg": "message text content", "n": "amount number", "town": "town place city location",
    "time": "time at", "date": "date day when", "cmd": "task to_do job", "firm": "company firm", "code": "code reference", "room": "room", "color": "color",
}  # fmt: skip
PLAIN = {"room": "in_room", "x": "thing_named", "p": "person_named", "n": "number_given", "town": "town_named"}


def value(hole: str, rng: Random) -> Any:
    base = hole.rstrip("2")
    return rng.choice(LISTS[base].split(",")) if base in LISTS else VALUES[base](rng)


@dataclass(frozen=True)
class Act:
    names: tuple[str, ...]
    about: str
    places: dict[str, tuple[str, ...]]
    texts: tuple[str, ...]
    things: tuple[str, ...]

    @property
    def holes(self) -> list[str]:
        return list(dict.fromkeys(found[1] for text in self.texts for found in HOLE.finditer(text)))


@cache
def families() -> list[list[Act]]:
    found: list[list[Act]] = []
    for block in FAMILIES.strip().lstrip("*").split("\n*"):
        head, *tools = block.split("\n")
        named, _, members = head.partition("|")
        acts = []
        for line in tools:
            names, about, places, texts = line.split("|")
            parts = (part.partition(":") for part in places.split(";") if part)
            known = {hole: tuple(free(given.split())) for hole, _, given in parts} | {"x": tuple(free(named.split()))}
            if free(names.split()):
                acts.append(
                    Act(tuple(free(names.split())), about, known, tuple(texts.split(";")), tuple(members.split(",")))
                )
        found.append(acts)
    return found


class Tool:
    """An act with names of its own for itself and its arguments."""

    def __init__(self, act: Act, rng: Random) -> None:
        self.act = act
        self.name = wide_copy.written(
            rng.choice(act.names).split("_"), rng.choice(("snake", "snake", "snake", "camel", "pascal"))
        )
        style = rng.choice(("snake", "snake", "snake", "camel", "kebab"))
        self.names: dict[str, str] = {}
        for hole in act.holes:
            group = next((many for many, lists in SAME.items() if hole in lists and many in act.places), hole)
            names = [each for each in act.places.get(group, ()) if written_free(each, style) not in self.names.values()]
            usual = [each for each in free(USUAL.get(hole, "").split()) if each not in self.names.values()]
            if usual and f"{hole}2" not in act.holes and rng.random() < 0.3:
                names = usual
            name = rng.choice(names) if names else PLAIN.get(hole, f"{hole}_given")
            self.names[hole] = written_free(name, style)

    def signature(self, described: bool, rng: Random) -> Json:
        properties: dict[str, Json] = {}
        order = rng.sample(list(self.names), len(self.names)) if rng.random() < 0.4 else list(self.names)
        for hole in order:
            words = plain(self.names[hole]).replace("_", " ")
            kind = {"type": "integer" if hole in NUMBERS else "string"}
            properties[self.names[hole]] = kind | (
                {"description": rng.choice((capital(words), words))} if described else {}
            )
        parameters = {"type": "object", "properties": properties, "required": list(properties)}
        about = {"description": self.act.about + rng.choice((".", ""))}
        return {"type": "function", "function": {"name": self.name} | about | {"parameters": parameters}}

    def call(self, rng: Random) -> tuple[str, Json]:
        text = rng.choice(
            [one for one in self.act.texts if {hole[1] for hole in HOLE.finditer(one)} == set(self.act.holes)]
        )
        found: Json = {}
        for hole in self.act.holes:
            while hole not in found or list(found.values()).count(found[hole]) > 1:
                found[hole] = (
                    value("title", rng)
                    if hole == "x" and self.act.things == ("{title}",)
                    else rng.choice(self.act.things)
                    if hole == "x"
                    else value(hole, rng)
                )
        told = HOLE.sub(lambda hole: facts.an(found[hole[1]]) if hole[2] else str(found[hole[1]]), text)
        return told, {self.names[hole]: found[hole] for hole in self.act.holes}


def written_free(name: str, style: str) -> str:
    """In this style, if that is nobody's."""
    shown = wide_copy.written(name.split("_"), style)
    return shown if not taken(shown) else name


def draw(rng: Random) -> Chat:
    return tool_call(rng) if rng.random() < 0.8 else wide_choose.told_call(rng, wide_pick.form)


def tool_call(rng: Random) -> Chat:
    """Two to five tools, most of them of one family."""
    family = rng.choice(families())
    near = rng.sample(family, min(len(family), rng.choice((2, 2, 3, 3, 4, 5))))
    others = rng.sample([act for many in families() if many is not family for act in many], rng.choice((0, 0, 1, 2, 3)))
    wanted = near[0]
    acts = [*near, *others][:5]
    tools = {one.name: one for one in (Tool(act, rng) for act in acts)}
    described = rng.random() < 0.5
    shown = [one.signature(described, rng) for one in tools.values()]
    order = {tool["function"]["name"]: list(tool["function"]["parameters"]["properties"]) for tool in shown}
    turns: list[Turn] = []
    draw = rng.random()
    if draw < 0.05:
        talk = rng.choice((wide_more.greet, wide_more.thank, wide_more.who, wide_talk.arithmetic))(rng)
        turns += [Turn("user", typed(talk.user, rng)), Turn("assistant", talk.answer)]
    elif draw < 0.08:
        strange = rng.choice([act for many in families() if many is not family for act in many if act not in acts])
        turns += [Turn("user", _asked(Tool(strange, rng), rng)[0]), Turn("assistant", NONE)]
    for at in range(rng.choice((1, 1, 1, 2, 2))):
        one = (
            next(each for each in tools.values() if each.act is wanted) if at == 0 else rng.choice(list(tools.values()))
        )
        text, arguments = _asked(one, rng)
        turns += [
            Turn("user", text),
            Turn("assistant", calls=[(one.name, {name: arguments[name] for name in order[one.name]})]),
        ]
        if rng.random() < 0.3:
            result = rng.choice(({"status": "ok"}, {"ok": True}, {"done": True}))
            turns += [Turn("tool", json.dumps(result)), Turn("assistant", rng.choice(DONE))]
    return Chat(
        turns, "wide_near", (), system(rng) if rng.random() < 0.2 else "", rng.sample(shown, len(shown)), expect=None
    )


def _asked(one: Tool, rng: Random) -> tuple[str, Json]:
    """A request; where a message ends it, nothing is put behind it."""
    text, arguments = one.call(rng)
    last = str(list(arguments.values())[-1])
    if any(text.endswith(str(each)) and len(str(each)) > 14 for each in arguments.values()) or text.endswith(last):
        opening = rng.choice(wide_talk.OPEN) + " " if rng.random() < 0.15 else ""
        return capital(opening + text) + rng.choice((".", "", "", "!")), arguments
    return _said(text, rng), arguments
