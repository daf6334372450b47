"""The words of `wide_beside`: two nouns side by side, titles and numbers, and sentences that hold them."""

# ruff: noqa: E501  (a row is easier to read in one line)

# names of the first|the first|names of the second|the second|s: one of them, m: some
PAIRS = """
wood timber kind_of_wood|oak,walnut,pine,cherry,maple,birch,ebony,teak,ash,mahogany,beech,willow|furniture piece_of_furniture|table,chair,cabinet,bench,desk,stool,bookcase,wardrobe,cradle|s
grain cereal sort_of_grain|rye,oat,barley,spelt,corn,wheat,rice,millet,buckwheat|baked_good form_of_it|loaf,bun,cracker,roll,biscuit,cake,flatbread,pancake|s
grain cereal crop|rye,oat,barley,spelt,wheat,millet,maize|farm_word|fields,straw,sacks,stalks,seed,flour|m
stone rock kind_of_stone|marble,granite,slate,sandstone,basalt,limestone,alabaster,flint|stone_article|slab,staircase,column,bust,basin,step,fountain,threshold|s
metal material metal_used|copper,brass,iron,steel,tin,silver,bronze,pewter,zinc,aluminum|metal_article object_made|kettle,bell,bucket,candlestick,gate,spoon,hinge,tray,anchor,weathercock|s
fabric cloth material|velvet,silk,linen,wool,denim,tweed,satin,corduroy,flannel,cotton|garment item_of_clothing|coat,skirt,waistcoat,scarf,jacket,cap,dress,shirt,tie,blouse|s
fabric textile|velvet,silk,linen,lace,cotton,muslin,damask,calico|household_linen|curtains,napkins,sheets,cushions,ribbons,pillowcases,handkerchiefs|m
fruit fruit_sort|plum,cherry,apricot,quince,lemon,pear,fig,raspberry,peach,currant,gooseberry|sweet_thing|jam,juice,syrup,jelly,sorbet,wine,brandy,compote|m
fruit flavor filling|plum,cherry,apricot,quince,lemon,pear,raspberry,apple,banana|cake_form bakery_article|tart,pie,cake,muffin,strudel,tartlet,crumble|s
animal creature|goat,sheep,camel,yak,llama,cow,buffalo|animal_product|cheese,wool,milk,hair,leather|m
bird bird_kept|goose,duck,ostrich,swan,peacock,quail,turkey|bird_product|feathers,eggs,soup,down|m
animal pet animal_kept|dog,cat,hamster,parrot,rabbit,horse,pony,goldfish,tortoise,canary|pet_article|collar,basket,cage,bowl,saddle,leash,blanket,kennel|s
bird kind_of_bird|eagle,owl,stork,raven,heron,swallow,wren,pigeon,jackdaw,kestrel|bird_word|nest,egg,feather,whistle,statue,mask,house|s
room part_of_house|garage,kitchen,cellar,attic,hall,bathroom,nursery,study,pantry,porch,bedroom|fixture house_part|lamps,windows,tiles,shelves,lights,heaters,curtains,doors,shutters|m
room where_in_house|garage,kitchen,cellar,attic,hall,bathroom,nursery,study,pantry,bedroom|fixture thing_in_room|door,window,lamp,radiator,floor,ceiling,sink,carpet,switch,key|s
sport game_played|tennis,hockey,golf,cricket,badminton,fencing,rugby,archery,boxing,ski|gear sports_article|racket,stick,glove,mask,bag,net,trophy,jersey,helmet|s
instrument musical_instrument|violin,cello,flute,harp,trumpet,guitar,banjo,oboe,piano,accordion|instrument_part accessory|case,string,stand,bow,cover,strap,lesson,tuner|s
vehicle means_of_transport|tram,bus,ferry,train,truck,bicycle,tractor,taxi,sled,moped|vehicle_word|ticket,tire,seat,engine,timetable,horn,permit,mirror|s
color colour shade|crimson,turquoise,beige,violet,scarlet,olive,navy,ivory,lilac,maroon,teal,pink,brown|item_colored|carpet,umbrella,door,bicycle,sofa,ribbon,envelope,balloon,tent,lampshade|s
size size_word|large,small,tiny,huge,medium,extra-large,narrow,wide|garment clothing|waistcoat,cardigan,apron,kimono,poncho,blazer,raincoat,tunic,vest,nightshirt|s
condition state_of_it|worn,rusty,spotless,cracked,faded,torn,moldy,dented,scratched,dusty|household_thing|mirror,kettle,globe,typewriter,teapot,suitcase,lantern,rug,clock,vase|s
flower bloom|tulip,rose,lily,dahlia,iris,crocus,peony,lavender,jasmine,poppy|flower_part|bulbs,petals,seeds,stems,oil,cuttings,honey|m
tree tree_species|birch,cedar,linden,maple,elm,chestnut,spruce,willow,yew|tree_part|bark,leaves,twigs,sap,planks,logs,roots,resin|m
spice seasoning|saffron,ginger,cinnamon,nutmeg,vanilla,cumin,clove,pepper,cardamom|seasoned_food|rice,cookies,tea,sauce,ice cream,pudding,milk,oil|m
season time_of_year|spring,summer,autumn,winter|seasonal_thing|coat,jacket,catalog,menu,ticket,hat,poster|s
meal which_meal|breakfast,lunch,dinner,supper,brunch|meal_thing|tray,invitation,menu,plate,basket,voucher|s
weekday day_named|Sunday,Monday,Friday,Saturday,Tuesday,Wednesday,Thursday|weekly_thing|paper,ticket,magazine,menu,puzzle,roast|s
month month_named|January,March,April,May,July,August,October,December|monthly_thing|issue,invoice,report,edition,calendar|s
language tongue|Turkish,Latin,Finnish,Dutch,Arabic,Polish,Swedish,Hindi,Greek,Welsh|language_thing|dictionary,newspaper,grammar,songbook,Bible,textbook,phrase book|s
drink beverage|cider,coffee,cocoa,lemonade,milk,beer,tea,wine,buttermilk|vessel drinking_vessel|mug,barrel,flask,jug,bottle,pot,glass,cup|s
body_part part_of_body|knee,ankle,elbow,shoulder,wrist,hip,neck,thumb,heel|medical_thing|brace,bandage,pad,support,strap,splint|s
vegetable crop_named|carrot,pumpkin,leek,onion,beetroot,spinach,potato,cabbage,turnip|dish_form|soup,salad,cake,stew,puree,quiche,dumpling|s
genre music_style|jazz,blues,reggae,techno,folk,opera,swing,gospel,punk|music_thing|record,ticket,poster,cassette,magazine,playlist|s
illness disease|measles,flu,malaria,cholera,asthma,rabies,mumps,polio|medical_word|vaccine,test,leaflet,poster,study|s
weather weather_event|hail,frost,storm,snow,flood,lightning,fog,wind|weather_word|map,report,warning,chart,siren|s
game board_game|chess,domino,backgammon,poker,bridge,checkers|game_word|set,table,board,trophy,book,clock|s
shape form_of_it|oval,round,square,triangular,heart-shaped,hexagonal,crescent-shaped|household_object|mirror,tray,cushion,table,box,window,tile,plate|s
nut nut_sort|walnut,almond,hazelnut,peanut,cashew,pistachio,chestnut|nut_food|butter,oil,brittle,cream,cake,shells,crust|m
cheese cheese_sort|gouda,feta,cheddar,brie,parmesan,ricotta,camembert|cheese_dish|sandwich,platter,omelet,salad,board,toast,pie|s
profession job_named|baker,sailor,nurse,miner,cook,pilot,fireman,butcher|work_thing|uniform,hat,cap,outfit,costume,badge|s
fish fish_sort|trout,salmon,herring,cod,eel,tuna,pike,carp,mackerel|fish_dish|salad,soup,fillet,paste,sandwich,stew,pie|s
gem precious_stone|ruby,emerald,opal,pearl,amber,topaz,sapphire,garnet|piece_of_jewelry|necklace,brooch,ring,bracelet,pendant,earring,tiara|s
"""
BEFORE = "old|worn|big|tiny|nice|second-hand|borrowed|expensive|broken|home-made|lovely|heavy|new|dirty|forgotten|left-over|strange|cheap|missing"
OF_MASS = "nice|expensive|home-made|lovely|left-over|cheap|forgotten|strange|fresh|excellent|missing"
BEHIND = "dug out behind the barn|bought at a flea market|left on the train|found in the yard|sent back twice|wrapped in paper|still unpaid|stored upstairs|cut by hand|kept in the dark|seen from the road|picked up yesterday|brought over by boat|sold out since noon|paid in cash|stolen last night|made to measure|cleaned this morning|thrown out again|offered for nothing|washed ashore"
# a sentence|a place:names
FRAMES = """
{p} asked for {np} in {town}|p:customer asked_by person;town:town place where
{p} paid {n} euros for {np}|p:buyer paid_by purchaser;n:price euros cost
they sold {np} to {p} for {n} euros|p:buyer new_owner sold_to;n:price euros amount
{np}, {n} euros, {p}|p:buyer person name;n:price euros cost
{p} from {town} wants {np}|p:customer person who;town:home_town hometown from_town
we saw {np} near {town} on {date}|town:near_town place seen_near;date:seen_on date day
{p} lost {np} in {town}|p:owner person lost_by;town:lost_in town place
{p} found {np} on the way to {town}|p:finder found_by person;town:way_to destination town
{p} gave {np} to {p2}|p:giver given_by donor;p2:receiver given_to recipient
{p} bought {np} from {p2} for {n} euros|p:buyer purchaser;p2:seller vendor;n:price euros
{np} from {town}, {n} grams|town:origin from_town comes_from;n:grams weight weight_in_grams
on {date} {p} ordered {np}|date:ordered_on date day;p:customer ordered_by
order {c}: {np} for {p}|c:order_code order_no code;p:customer recipient goes_to
{p} complains about {np}, ticket {c}|p:complainant complaint_by person;c:ticket_code ticket code
for {p} in {town}: {np}|p:addressee goes_to_person recipient;town:goes_to_town destination
{p} will bring {np} at {time}|p:bringer brought_by person;time:time at_time clock_time
delivered to {p} at {time}: {np}|p:receiver delivered_to recipient;time:delivered_at time clock_time
lot {m}: {np}, {n} euros|m:lot lot_no lot_number;n:estimate euros price
shelf {m} holds {np}, price {n}|m:shelf shelf_no;n:price cost
{p} wrote {m} pages about {np}|p:author written_by writer;m:pages page_count
{p} insured {np} for {n} euros|p:insured_person owner insured_by;n:insured_sum euros sum
the museum in {town} shows {np}|town:museum_town town place
{p}, {m}, dreams of {np}|p:dreamer person name;m:age years age_years
{np} for {p}, no hurry|p:recipient for_person meant_for
{p} repaired {np} in {m} hours|p:repaired_by repairer craftsman;m:hours hours_taken duration_hours
{np}: {m} in stock, {n} euros each|m:in_stock stock pieces_left;n:price_each unit_price euros_each
I promised {np} to {p}|p:promised_to person recipient
{p} wrapped {np} for {p2}|p:wrapped_by packer;p2:wrapped_for recipient
the fee for {np} is {n} euros, {p} knows|n:fee euros;p:informed_person contact who_knows
{m} people came because of {np}|m:visitors people_count how_many_came
nobody in {town} sells {np}|town:town searched_town place
"{title}" by {p} mentions {np}|title:title work_title book;p:author written_by
{p} traded {np} for {m} stamps|p:trader traded_by person;m:stamps stamp_count
for {np} they want {n} euros in {town} and {m} in {town2}|town:first_town town_one;town2:second_town other_town;n:first_price price_one;m:second_price other_price
"""
# titles that hold numbers or names; numbers and whose they are
TITLED = """
{p} borrowed {title} for {m} days|p:borrower reader lent_to;title:title book_title book;m:days loan_days lent_for
{title} by {p} has {n} pages|p:author writer written_by;title:title book_title book;n:pages page_count length_pages
{p} sang {title} in {town}, {n} people listened|p:singer performer sung_by;title:song song_title piece;town:town venue_town;n:listeners audience people_listening
track {m} is {title} by {p}|m:track track_no track_number;title:song song_title title;p:artist performer
{title} starts at {time} in hall {m}|title:film film_title movie;time:start start_time begins_at;m:hall hall_no
{p} painted {title} in {y}|p:painter artist painted_by;title:painting picture_title work;y:year painted_in
two tickets for {title}, row {m}, for {p}|title:play show_title show;m:row row_no;p:ticket_holder guest reserved_for
{p} has seen {title} {m} times|p:viewer fan seen_by;title:film film_title movie;m:times_seen times how_often
the boat {title} carries {m} people, captain {p}|title:boat boat_name ship;m:capacity passengers people_on_board;p:captain skipper
{p} rode {title} to place {m}|p:rider jockey;title:horse horse_name;m:place rank
{title} ran for {n} minutes, said {p}|title:film film_title show;n:minutes running_minutes length_minutes;p:source said_by
we meet at the {title} pub, table {m}, ask for {p}|title:pub pub_name tavern;m:table table_no;p:ask_for contact
{p} wrote {title} at the age of {n}|p:composer author writer;title:work work_title title;n:age age_then
{title} was printed in {y}, {n} copies|title:title book_title work;y:year printed_in;n:copies print_run
in {title}, {p} plays a spy, {n} euros per seat|title:film play_title show;p:actor performer star;n:seat_price euros price
episode {m} of {title}: {p} comes back|m:episode episode_no;title:series show series_title;p:character who_returns
{p} gave {title} {m} stars|p:critic reviewer rated_by;title:title rated_work work;m:stars rating
scene {m} of {title}, with {p}|m:scene scene_no;title:play play_title;p:actor actress cast_member
{title}, volume {m}, belongs to {p}|title:title book_title series;m:volume volume_no;p:owner belongs_to
{p} won {n} euros with the poem {title}|p:poet winner;n:prize euros prize_money;title:poem poem_title
"""
WHOSE = """
{p} has {n} points, {p2} {m}|p:first_player player_one;n:first_points points_one;p2:second_player player_two;m:second_points points_two
{n} adults and {m} children|n:adults adult_count number_of_adults;m:children child_count number_of_children
it was {n} euros and is {m} now|n:old_price price_before;m:new_price price_now
{n} wide and {m} high|n:width width_cm;m:height height_cm
{p} brought {n} chairs and {m} tables|p:brought_by helper;n:chairs chair_count;m:tables table_count
room {m}, {n} nights, {p}|m:room room_no;n:nights night_count;p:guest guest_name
{p}, {m} years, {n} kilos|p:patient name person;m:age years;n:weight kilos
house {m}, floor {k}, {p}|m:house_no house_number;k:floor floor_no;p:tenant resident
{n} came on Monday, {m} on Tuesday|n:monday_visitors visitors_monday;m:tuesday_visitors visitors_tuesday
bus {m} leaves in {n} minutes for {town}|m:bus bus_no line_no;n:minutes minutes_left;town:destination bound_for
{p} ran {k} laps in {n} minutes|p:runner athlete;k:laps lap_count;n:minutes time_minutes
page {m}, line {k}|m:page page_no;k:line line_no
{n} applied and {m} were taken|n:applicants applied;m:accepted taken_on
{p} is {n}, {p2} is {m}|p:first_person person_one;n:first_age age_one;p2:second_person person_two;m:second_age age_two
gate {m}, seat {k}, flight {c}|m:gate gate_no;k:seat seat_no;c:flight flight_code
{p} owes {p2} {n} euros|p:debtor owes;p2:creditor is_owed;n:debt euros sum_owed
{n} eggs, {m} of them broken|n:eggs egg_count;m:broken broken_eggs
{k} cups of flour and {m} spoons of sugar|k:cups_of_flour flour_cups;m:spoons_of_sugar sugar_spoons
{p} drove {n} kilometers with {k} stops|p:driver driven_by;n:kilometers distance_km;k:stops stop_count
{p} lives at {m} {street}|p:resident who_lives_there;m:house_no street_number;street:street street_name
call {p} at {phone} before {time}|p:contact call_whom;phone:phone phone_number;time:before_time deadline_time
team A {k}, team B {m}|k:score_a goals_a;m:score_b goals_b
{n} degrees by day, {k} by night in {town}|n:day_degrees warm_degrees;k:night_degrees cold_degrees;town:town place
{k} twins and {m} triplets were born|k:twin_births twins;m:triplet_births triplets
"""
CHATTER_BEFORE = "Ugh.|File this.|Here is one more.|Another one.|Hm.|Sorry for the mess.|Oh well.|From my notes.|For the archive.|This came in.|Look at this.|Not again.|Fine.|So.|Right then.|Before I forget.|Let me see.|Quick note.|No joke.|You will not believe it.|Wait.|Listen.|As I said.|Long day.|Do what you do.|Handle this.|Store it.|Write it down.|Here goes.|Type this up.|Yawn.|Ahem.|Hello again."
CHATTER_BEHIND = "Thanks.|File this.|That is all.|Whatever.|Take care of it.|You know the drill.|Cheers.|Ugh.|Enter it, please.|No more questions.|End of message.|Over and out.|And now I need a break.|Done.|Please log it.|I am off.|Put it with the others.|So much for that.|What a life.|Sigh.|Good grief.|Keep it safe.|As always."
TITLES = "Seven {ns}|The {n} {Ns}|{N} {n}|Room {n}|Platform {n}|{f}|Letters to {f}|The {A} {N}|{A} {N}|{N} and {N2}|The {N} of {f}|{y}|A {N} for {f}|{f} and the {N}|Three {A} {ns}|{n} Days|Without {f}|Good Night, {f}|The Last {N}|Chapter {n}|Twelve {A} {ns}|My {N}|The {N} at Number {n}|{f} {l}"
STREETS = "Mill Lane|Oak Street|Harbor Road|Church Row|Station Road|Elm Avenue|King Street|Bakers Alley|Park Way|Castle Hill|River Walk|Long Acre"
