"""What is true or false, said in other words than the key's: antonyms, negations, what follows from it.

whom or what it is said of (p: a person)|keys that are true of the first sayings|keys that are true of the second ones|sayings|sayings
"""

# ruff: noqa: E501  (a row is easier to read in one line)

TRUTHS = """
toaster,printer,boiler,radio,elevator,lawnmower,phone,projector,dishwasher,vacuum cleaner|works working functional in_order|broken defective out_of_order faulty|{it} still works;{it} runs like clockwork;{it} does its job again;nothing wrong with {it};{it} is up and running|{it} gave up the ghost;{it} died on us;{it} is kaput;{it} no longer switches on;{it} is beyond repair
p|paid settled|owes unpaid in_debt|{it} handed over the money;{it} is even with us;{it} settled the bill;{it} transferred everything;nothing is open with {it} any more|{it} still owes us;{it} has not sent a cent;{it} left without reaching for the wallet;we are waiting for the money of {it};{it} is behind with the rent
p|married has_spouse|single unmarried|{it} tied the knot;{it} wears a ring since June;{it} said yes at the altar;{it} has a husband now|{it} never found the right one;{it} is a bachelor;{it} is still looking for a partner;no wedding bells for {it} so far
p|alive living|dead deceased|{it} is with us still;{it} is going strong at ninety;{it} breathes again|{it} passed away;{it} is no longer with us;{it} was buried on Monday;{it} died in spring
p|employed has_job|unemployed out_of_work jobless|{it} has a steady position;{it} goes to the office every day;{it} was hired in May|{it} lost the job;{it} is between jobs;{it} was laid off;{it} lives on the dole
p|awake|asleep sleeping|{it} is wide-eyed;{it} did not sleep a wink;{it} is up already|{it} is snoring;{it} dozed off;{it} is out like a light;{it} is in the land of dreams
p|sober|drunk intoxicated|{it} had nothing but water;{it} has not touched a drop;{it} could walk a straight line|{it} had one too many;{it} was tipsy;{it} emptied the bottle alone and swayed
p|healthy well|sick ill unwell|{it} is fit as a fiddle;{it} feels fine again;{it} has never been better;the doctor sent {it} home in top shape|{it} lies in bed with a fever;{it} is under the weather;{it} caught something;{it} has been coughing all week
p|attending present coming|absent missing_person|{it} is in the room;{it} showed up;{it} took a seat in the front row;{it} will be there|{it} stayed away;{it} did not turn up;the chair of {it} was empty;{it} cannot make it
p|passed_exam exam_passed|failed_exam|{it} got the certificate;{it} made it through the test;{it} did well enough to get the diploma|{it} flunked;{it} has to repeat the test;{it} did not get enough points
p|vaccinated immunized|unvaccinated|{it} got the shot;{it} had both jabs;{it} rolled up a sleeve for the nurse|{it} skipped the shot;{it} refused the jab;{it} has never had the needle
p|insured covered_by_policy|uninsured|{it} has a policy;the company will pay for {it};{it} is covered|{it} has no policy;no company will pay for {it};{it} never took out cover
p|smoker smokes|non_smoker smoke_free_person|{it} lights one after the other;{it} gets through a pack a day;{it} cannot do without cigarettes|{it} never touched a cigarette;{it} quit the habit for good;{it} hates tobacco and keeps off it
p|vegetarian_diner meat_free_diner|eats_meat meat_eater|{it} leaves the sausages to others;{it} has not had a steak in years;{it} lives on vegetables and eggs|{it} devoured a steak;{it} loves a good ham;{it} ordered the ribs
p|retired pensioner|still_working|{it} draws a pension;{it} gave up work at sixty-five;{it} enjoys the years after the job|{it} is in the office every day;{it} cannot think of stopping work yet;{it} still earns a wage
p|arrived|still_on_the_way under_way|{it} is here;{it} walked in an hour ago;{it} has reached us;{it} stands at the door|{it} is stuck in traffic;{it} is on the road yet;we are still waiting for {it};{it} will be another hour
p|punctual on_time_person|late tardy|{it} was there on the dot;{it} came with the bell;{it} did not keep us waiting|{it} kept us waiting;{it} rushed in after the start;{it} missed the first half hour
p|guilty convicted|innocent acquitted|{it} did it;the court sent {it} to prison;{it} confessed and got two years|the court let {it} go free;it was not {it} after all;{it} was cleared of everything
p|armed carries_weapon|unarmed|{it} had a pistol;{it} carried a knife;a gun was found on {it}|{it} had empty hands;nothing dangerous was found on {it};{it} came without any weapon
p|experienced|newcomer beginner novice|{it} has done this for twenty years;{it} knows every trick;{it} is an old hand|{it} started yesterday;{it} has never done this before;it is the first time for {it}
p|satisfied happy_customer|dissatisfied unhappy_customer|{it} could not be more pleased;{it} gave us five stars;{it} praised everything|{it} wants the money back;{it} complained bitterly;{it} will never come again
p|agreed consented|refused declined|{it} said yes;{it} nodded;{it} is fine with it;{it} gave the green light|{it} said no;{it} shook the head;{it} would not hear of it;{it} turned it down
p|member of_the_club|not_a_member outsider|{it} is one of ours;{it} joined in March;{it} pays the yearly fee to the club|{it} is not on our list;{it} left the club;{it} never joined
p|homeless|has_home housed|{it} sleeps under the bridge;{it} has no roof over the head;{it} lost the flat and lives in the street|{it} has a flat in town;{it} moved into a house;{it} found four walls
p|left_handed lefty|right_handed|{it} writes with the left;the right is the weak one for {it}|{it} writes with the right;the left is the weak one for {it}
p|pregnant expecting|not_expecting|{it} will have a baby in May;{it} is in the sixth month;there is a little one on the way for {it}|{it} is not having a baby;the test of {it} was negative;it was a false alarm for {it}
p|injured hurt|unhurt unharmed|{it} broke a leg;{it} was taken away with a bleeding nose;{it} twisted an ankle|{it} got away without a scratch;nothing happened to {it};{it} walked off in one piece
p|barefoot|wearing_shoes|{it} came without shoes;{it} left the sandals at home and felt the grass;nothing on the feet of {it}|{it} had boots on;{it} wore sneakers;{it} kept the slippers on
p|literate can_read|illiterate|{it} devours books;{it} reads the paper every day;{it} spelled out every word|{it} never learned the letters;{it} cannot make out a single word;somebody has to read for {it}
p|invited on_guest_list|uninvited|{it} got a card for the party;we asked {it} to come;{it} is on the list of guests|nobody asked {it} to come;{it} got no card;{it} came to the party without being asked
p|bald hairless|has_hair|{it} has not a hair left;there is nothing for a comb on {it};{it} shaved the head clean|{it} has long curls;{it} has a thick mane;{it} needs a haircut
p|bearded has_beard|clean_shaven|{it} has not shaved for months;{it} grew whiskers;the chin of {it} is hidden|{it} has a smooth chin;{it} shaves every morning;no whiskers on {it}
p|can_swim swimmer|cannot_swim non_swimmer|{it} crossed the lake with ease;{it} is like a fish in the water|{it} would sink like a stone;{it} never learned it and stays out of the water
p|has_license licensed_driver|unlicensed|{it} may drive;{it} passed the driving test;{it} drives the van|{it} may not drive;the police took the papers of {it};{it} has never taken driving lessons
p|citizen_here has_passport|foreign without_passport|{it} has our passport;{it} was naturalized|{it} has no passport of ours;{it} is here on a visa
p|rich wealthy|poor broke|{it} swims in money;{it} owns three villas;{it} need not count pennies|{it} has empty pockets;{it} counts every penny;{it} cannot pay for a coffee
p|famous well_known|unknown obscure|everybody knows {it};{it} cannot walk down the street in peace;{it} is a household name|nobody has ever heard of {it};the name of {it} means nothing to anyone
p|promoted|demoted|{it} climbed a step in the firm;{it} is head of the department now;{it} got the bigger office and the better title|{it} lost the better title;{it} was moved down a rank;{it} is no longer head of the department
p|lost_way astray|knows_the_way|{it} has no idea where the road is;{it} walked in circles;{it} took the wrong turn and stands in the woods|{it} found the path at once;{it} needs no map here
p|cured recovered|still_in_treatment|{it} left the hospital in good health;{it} is over it;{it} got well again|{it} needs more therapy;{it} is not over it yet;{it} has to go back to the ward
p|online connected_user|offline|{it} is in the chat;the dot beside {it} is green;{it} just logged in|{it} logged out;the dot beside {it} is gray;{it} has no connection
p|hungry|full sated|{it} could eat a horse;the stomach of {it} growls;{it} has not had a bite all day|{it} cannot eat another bite;{it} pushed the plate away;{it} had three helpings
p|warned|caught_unawares|{it} knew what was coming;we told {it} beforehand|nobody told {it};it hit {it} out of the blue
p|truthful honest|lying dishonest|{it} told it as it was;every word of {it} holds up;{it} hid nothing|{it} made it all up;not a word of {it} holds up;{it} pulled a story out of thin air
p|brave fearless|afraid scared|{it} did not blink;{it} walked straight toward it;nothing frightens {it}|{it} trembled;{it} hid under the table;{it} ran off screaming
door,gate,shop,window,museum,bridge,pharmacy,ticket office,canteen|open is_open|closed shut locked_up|{it} lets people in;anybody can walk through {it};{it} stands ajar;come in through {it}|nobody gets into {it};the shutters of {it} are down;{it} is bolted;you stand outside {it} in vain
door,drawer,bicycle,safe,car,cabinet,gate|locked secured|unlocked unsecured|{it} cannot be opened without the key;the bolt is drawn on {it};I turned the key of {it} twice|anybody could open {it};the key of {it} was never turned;{it} has no lock on
lamp,oven,heater,fan,television,radio,iron,sprinkler,siren|on switched_on running|off switched_off|{it} has been going all night;somebody pressed the button of {it};{it} hums away;{it} is drawing power|somebody pulled the plug of {it};{it} is silent and cold;{it} draws no power;nobody has started {it}
bucket,bottle,tank,barrel,fridge,shelf,bus,hall,basket|full filled|empty|nothing more goes into {it};{it} is brimming;{it} is packed to the top|there is nothing left in {it};you can see the bottom of {it};{it} has not a thing in it
towel,floor,coat,grass,wood,tent,laundry,bench|dry|wet soaked damp|not a drop on {it};the sun has done its work on {it};{it} rustles like paper|{it} drips;you could wring {it} out;{it} stood in the rain all night
shirt,kitchen,window,plate,car,carpet,bathtub|clean spotless|dirty filthy stained|{it} shines;{it} was scrubbed this morning;not a speck on {it}|{it} is full of mud;{it} has not been washed for weeks;grease all over {it};{it} could do with soap
knife,blade,axe,pencil,scissors blade,razor|sharp|blunt dull|{it} goes through anything;mind your fingers with {it};{it} was honed yesterday|{it} would not cut butter;{it} needs grinding;{it} slides off everything
soup,coffee,oven plate,iron,bath,stove|hot|cold cooled_down|you will burn your tongue or fingers on {it};{it} steams;{it} is straight from the fire|{it} stood around too long;there is no warmth left in {it};{it} is like ice
milk,bread,cheese,fish,yogurt,ham,cake|fresh edible|spoiled gone_off rotten expired|{it} was made this morning;{it} smells as it should;you can still eat {it}|{it} smells foul;mold on {it};{it} is past its date;do not touch {it}, it turned
road,pass,path,tunnel,track,bridge|passable usable|blocked impassable|you get through on {it};{it} is clear;traffic flows on {it}|a tree lies across {it};nothing moves on {it};you cannot get through on {it}
parcel,letter,invoice,mail,order,application|sent dispatched|unsent not_sent|{it} is in the post;{it} left the house;{it} is on its way|{it} is lying on my desk still;{it} never left the house;I forgot to post {it}
parcel,letter,invoice,package,delivery,telegram|arrived received|not_received lost_in_transit|{it} is here;{it} lay in the mailbox;I am holding {it} in my hands|{it} never came;no trace of {it};we are waiting for {it} yet
house,flat,cottage,room,villa,studio,stall|rented_out occupied taken_by_tenant|vacant available free_to_rent|somebody lives in {it};{it} has a tenant;there are curtains and lights in {it} every night|nobody lives in {it};{it} has been empty since May;you can move into {it} tomorrow
table,seat,court,boat,car,room|reserved booked|unreserved free_seat|somebody put a name on {it};{it} is spoken for;{it} has been set aside|nobody asked for {it};take {it} if you like, it is anyone's;{it} has no name on it
flight,concert,match,meeting,lecture,wedding,parade,picnic|canceled called_off|taking_place going_ahead|{it} was scrapped;there will be no {it.n};nothing came of {it};they dropped {it}|{it} goes ahead;{it} starts as planned;nothing stops {it}
train,bus,ferry,flight,tram|delayed behind_time|on_schedule in_time|{it} comes an hour after the time;{it} keeps everybody waiting;{it} is running behind|{it} came to the minute;{it} keeps to the timetable;{it} left when it should
match,race,game,duel,lawsuit,election|won|lost|{it} went our way;{it} ended in triumph for us;we came out on top in {it}|{it} went to the others;we came off worse in {it};{it} ended in defeat for us
game,trial,concert,museum,show,course,ferry|free_of_charge gratis|costs_money paid_entry|you pay nothing for {it};{it} costs not a cent;{it} is on the house|they want ten euros for {it};{it} is not for nothing;you need a ticket for {it}
ring,painting,coin,passport,signature,vase,violin|genuine authentic real|fake forged counterfeit|the experts have no doubt about {it};{it} is the true thing;{it} is what it claims to be|{it} is a copy;somebody forged {it};{it} is not what it claims to be
jacket,tent,watch,boot,phone,box|waterproof rainproof|leaky lets_water_in|rain runs off {it};{it} can lie in the sea;not a drop gets into {it}|{it} got drenched inside;water comes through {it};{it} does not stand rain
snake,berry,mushroom,plant,spider,frog|poisonous venomous toxic|harmless nontoxic|{it} can kill you;keep your hands off {it}, it is deadly;one bite of {it} is enough for the hospital|{it} does no harm;you need not fear {it};children can touch {it}
dog,horse,parrot,fox,bear,hawk|tame docile|wild untamed|{it} eats out of your hand;{it} lets you stroke it;{it} lives with people|{it} bolts at the sight of people;nobody has ever touched {it};{it} cannot be held
dog,cat,goat,hamster,parrot|friendly gentle|aggressive dangerous|{it} wags and licks everybody;{it} would not hurt a fly;children may stroke {it}|{it} bit the postman;{it} growls at everybody;keep away from {it}
book,film,lecture,story,play,game|exciting thrilling|boring dull_work|I could not put {it} down, so to speak;{it} kept us on the edge of our seats;time flew with {it}|I yawned through {it};{it} put me to sleep;{it} dragged on and on
chair,sofa,bed,saddle,shoe,seat|comfortable cozy|uncomfortable|you never want to get up from {it}, it is so soft;{it} is a pleasure;{it} fits like a cloud|{it} hurts after a minute;{it} is torture;everything aches in {it}
street,house,room,school,park,engine|quiet silent|noisy loud|you hear a pin drop in {it};not a sound from {it};{it} is perfect for sleeping|what a racket in {it};you need earplugs near {it};you cannot hear your own words near {it}
fence,shed,boat,wall,bench,door|painted|bare unpainted|{it} got a new coat of blue;{it} has two layers of varnish color on it;the brush has been over {it}|{it} is raw wood still;no brush has touched {it};{it} waits for its color
bread,soup,stew,sausage,pickle,sauce|salty too_salty|bland unsalted|{it} makes you thirsty;the cook dropped the shaker into {it};{it} tastes like sea water|{it} has no seasoning at all;{it} tastes of nothing;{it} could do with a pinch
curry,salsa,soup,sausage,noodle dish|spicy fiery|mild|{it} burns the tongue;tears came to my eyes from {it};drink a lot with {it}|even babies can eat {it};{it} does not burn at all;no chili in {it}
cake,lemonade,coffee,jam,tea|sweetened sugary|unsweetened sugar_free|three spoons of sugar went into {it};{it} is like syrup;honey was stirred into {it}|no sugar in {it};{it} was left without any honey;diabetics can have {it}
bill,ticket,fine,invoice,deposit,rent|settled cleared|outstanding overdue|{it} was taken care of on Monday;the money for {it} went out;{it} is off the list|nobody has transferred the money for {it};{it} lies there unpaid;they remind us of {it} every week
deposit,fare,fee,ticket,coat|refundable returnable|non_refundable no_refund|you get the money for {it} back;they take {it} back any time|the money for {it} is gone for good;no way to get anything back for {it}
contract,letter,will,petition,form|signed|unsigned|{it} has her name under it;the ink is on {it};everybody put the pen to {it}|nobody put the pen to {it};the line at the bottom of {it} is blank;{it} waits for a name
report,essay,bridge,novel,puzzle,quilt,roof|finished completed done|unfinished incomplete|{it} is ready;the last touch was put on {it};nothing more to do on {it}|{it} needs another week;half of {it} is missing;work on {it} goes on
plan,budget,permit,request,leave,loan|approved granted|rejected denied|the board said yes to {it};{it} got the stamp;the green light is there for {it}|the board said no to {it};{it} was turned down;{it} came back with a red stamp
key,wallet,umbrella,glove,ring,dog|lost missing|found_again recovered_item|{it} is nowhere to be seen;I searched everywhere for {it};where can {it} be|{it} turned up;{it} lay under the sofa all along;I have {it} back
bicycle,purse,car,painting,laptop|stolen taken_by_thief|safe still_there|somebody made off with {it};a thief has {it};{it} was taken in the night|{it} is where I left it;nobody touched {it};{it} stands there as ever
phone,battery,watch,tablet,scooter,torch|charged has_power|flat_battery out_of_power drained|{it} shows a hundred percent;{it} hung on the cable all night;there is plenty of juice in {it}|{it} needs the cable;the screen of {it} stays black for lack of juice;{it} went dead
package,vase,mirror,crate,lamp|fragile breakable|unbreakable sturdy|handle {it} like an egg;{it} shatters at a touch;carry {it} with both hands, it is delicate|you can drop {it};{it} survives anything;an elephant may sit on {it}
rope,bridge,ladder,chair,shelf,ice|safe_to_use holds|unsafe dangerous_to_use|{it} carries us all;you can trust {it};the inspector had no worries about {it}|do not step on {it};{it} may give way;the inspector closed {it} off
river,lake,pipe,pond,pond surface|frozen iced_over|ice_free thawed|you can skate on {it};{it} turned to ice;{it} is hard as stone|the ice on {it} is gone;{it} flows as in summer;ducks swim on {it}
sky,morning,day,night|cloudless clear|cloudy overcast|not a cloud in {it};{it} was all blue or full of stars|gray all over in {it};{it} was hidden behind clouds
lawn,hedge,beard,hair,meadow|cut trimmed|overgrown uncut|{it} is short again;the shears have been at {it};{it} was mowed or clipped yesterday|{it} has run wild;nobody has been at {it} for months;you could get lost in {it}
plant,tree,rose,fern,cactus|thriving healthy_plant|withered dying|{it} puts out new leaves;{it} grows like mad;{it} is in full bloom|{it} lets its leaves fall;{it} is brown and dry;there is no saving {it}
soil,garden bed,pot,lawn,field|watered moist|parched dried_out|{it} got its water this morning;{it} feels damp to the finger|{it} has cracks from thirst;{it} is dust;not a drop for {it} in weeks
car,van,tractor,moped|insured_vehicle has_policy|uninsured_vehicle no_policy|{it} is covered;the company pays if something happens to {it}|no company will pay for {it};the policy of {it} ran out
house,flat,office,barn,cabin|heated warm_inside|unheated chilly|the stove in {it} is lit;you can sit in a T-shirt in {it};the radiators in {it} glow|you see your breath in {it};keep your coat on in {it};no stove in {it}
house,hut,cabin,street,village|has_electricity on_the_grid|without_power off_grid|there is a socket in every corner of {it};the lights came on in {it}|candles are all they have in {it};no wire leads to {it};{it} has been in the dark since the storm
train,cafe,hotel,library,ferry|has_wifi internet_available|no_internet offline_place|you can surf in {it};there is a network in {it} and the password is on the wall|no network in {it};you cannot get online in {it}
building,bus,museum,beach,toilet|accessible step_free|inaccessible stairs_only|a ramp leads into {it};wheelchairs get everywhere in {it}|only stairs lead into {it};no way into {it} with a wheelchair
beach,pool,river,lake,bay|swimming_allowed bathing_permitted|swimming_forbidden no_bathing|you may jump into {it};lifeguards watch {it} and everybody splashes|a sign at {it} says keep out of the water;nobody may go into {it}
park,restaurant,hotel,bus,shop|pets_allowed dogs_welcome|no_pets dogs_forbidden|bring your poodle to {it};four-legged friends get a bowl in {it}|leave your poodle outside {it};animals have to wait in front of {it}
room,cafe,flat,terrace,lobby|smoking_allowed smokers_room|smoke_free no_smoking|there are ashtrays in {it};you may light up in {it}|put out your cigarette before {it};ashtrays were banned from {it}
elevator,road,wing,exit,pool|under_repair being_fixed|in_service|workers are at {it} with tools;{it} is being mended|{it} can be used as ever;no workers near {it};{it} serves everybody
engine,car,motor,chainsaw,generator|starts|will_not_start stalled|one turn of the key and {it} roars;{it} sprang to life|{it} only coughs;turn the key all you like, {it} stays silent
file,photo,document,message,backup|deleted erased|kept preserved|{it} is gone from the disk;I threw {it} into the bin and emptied it;{it} was wiped|{it} is still on the disk;I put {it} aside for later;{it} was not thrown away
file,folder,account,note,diary|encrypted protected|unprotected readable_by_all|nobody can read {it} without the password;{it} is scrambled|anybody can look into {it};there is no password on {it}
post,album,profile,park,meeting,beach|public open_to_all|private members_only|everybody can see {it} or go there;{it} is for the whole world|only friends get into {it};{it} is not for strangers
software,app,driver,map,catalog|up_to_date current|outdated obsolete|{it} has the newest version;{it} was refreshed today|{it} is three versions behind;{it} dates from the last century
test,experiment,launch,repair,rescue,surgery|successful went_well|failed unsuccessful|{it} did what it should;{it} came off without a hitch;cheers all round after {it}|{it} ended in smoke;nothing came of {it};{it} was a flop
sample,test,smear,swab|positive infection_found|negative no_infection|they found the germ in {it};two lines on {it}|nothing was found in {it};{it} showed only one line
wound,bone,scar,cut|healed|still_open not_healed|there is nothing to see of {it} any more;{it} closed nicely|{it} bleeds again;{it} needs another month
tooth,nail,finger,branch,handle|loose wobbly|firm fixed|{it} moves when you touch it;{it} hangs by a thread|{it} sits tight;nothing moves {it}
meal,lunch,salad,stew,burger,pie|vegetarian meatless|contains_meat meaty|no animal had to die for {it};only beans and vegetables in {it}|there is bacon in {it};{it} is made with beef
cookie,bread,beer,pasta,cake|gluten_free wheat_free|contains_gluten with_wheat|people who cannot stand wheat may eat {it};it is rice flour that {it} is made of|{it} is made of plain wheat flour;people who cannot stand wheat must leave {it}
juice,punch,cocktail,beer,cake|alcoholic contains_alcohol|alcohol_free nonalcoholic|there is rum in {it};drivers should leave {it};{it} goes to your head|children may drink or eat {it};no rum in {it};drivers may have {it}
coat,car,phone,piano,sofa|second_hand used|brand_new unused|somebody owned {it} before;{it} came from a flea market|{it} is straight from the factory;the wrapping is still on {it};nobody had {it} before
coat,house,meal,ticket,watch,hotel|expensive overpriced|cheap inexpensive|{it} cost a fortune;nobody can pay for {it};they asked a small fortune for {it}|{it} cost next to nothing;I got {it} for a song;{it} was a bargain
box,suitcase,piano,stone,crate|heavy|light lightweight|it took four men to lift {it};my back aches from {it};{it} weighs a ton|a child can lift {it};{it} weighs nothing;I carried {it} with one finger
question,exam,puzzle,climb,recipe|difficult hard|easy simple|nobody could do {it};we broke our heads over {it}|child's play, {it};I did {it} with one hand;everybody managed {it}
river,well,hole,snow,pool|deep|shallow|you cannot stand in {it};nobody sees the bottom of {it}|{it} reaches up to the ankles;you can wade through {it}
train,car,answer,runner,snail|fast quick|slow|{it} flew past;you blink and {it} is gone;{it} took no time|{it} crawls;you could walk beside {it};{it} takes for ever
street,coast,alley,shop,square|crowded busy|deserted empty_of_people|you could hardly move in {it};people everywhere in {it}|not a soul in {it};only pigeons in {it}
curtain,shirt,flag,photo,sofa|faded bleached|color_fast still_bright|the sun has taken the color out of {it};{it} was red once, now who knows|{it} is as bright as on the first day;the sun could do nothing to {it}
clock,watch,timer,scale,thermometer|accurate exact|inaccurate wrong_reading|you can rely on {it} to the second or gram;{it} is never off|{it} is always off;{it} tells you anything but the truth
claim,rumor,story,alibi,report|true_claim confirmed|false_claim refuted|it turned out just as {it} said;proof was found for {it}|there is nothing behind {it};{it} turned out to be nonsense
ship,submarine,wreck,raft|afloat|sunk sank|{it} rides the waves;{it} stays on the surface|{it} lies on the sea bed;{it} went down with a gurgle
fire,candle,torch,stove,lantern|burning lit|out extinguished|flames leap from {it};{it} glows;somebody put a match to {it}|{it} was put out;only ash is left of {it};{it} went dark
tire,ball,balloon,mattress|inflated pumped_up|flat deflated|{it} is hard and round;I filled {it} with air|the air is out of {it};{it} hangs limp;somebody drove a nail into {it}
tap,roof,pipe,boat,hose|leaking leaky_thing|tight watertight|it drips from {it};we had to put a bucket under {it}|not a drop comes out of {it} where it should not;{it} keeps the water where it belongs
warranty,passport,coupon,visa,license|valid in_force|expired_paper void|{it} can be used until next year;they accepted {it} without a word|{it} ran out in March;nobody accepts {it} any more
job,post,position,seat,chair|filled_post taken_by_someone|vacant_post still_open_post|they found somebody for {it};{it} went to a man from the south|they are still looking for somebody for {it};nobody holds {it}
car,house,boat,farm,horse|for_sale on_the_market|not_for_sale|make an offer for {it};a sign with a price hangs on {it}|no money in the world will get you {it};the owner keeps {it} for good
car,house,boat,farm,painting|sold|unsold still_ours|{it} has a new owner;somebody signed for {it} and paid|nobody wanted {it};{it} is still ours;no buyer turned up for {it}
path,room,photo,stage,cellar|well_lit bright|dark unlit|you can read a paper in {it};lamps everywhere along {it}|you do not see your own hand in {it};bring a torch for {it}
shirt,shoe,suit,ring,helmet|fits right_size|too_tight wrong_size|{it} sits like a glove;{it} is made for me|I cannot get into {it};{it} pinches everywhere
dress,rope,beam,queue,film|long|short|{it} never ends;{it} goes on for ever|{it} is over before it begins;there is hardly anything of {it}
hall,concert,cinema,boat trip,matinee|sold_out fully_booked|seats_left tickets_available|not a seat to be had for {it};they turned people away at {it}|you can still get in to {it};half of {it} was empty
screen,mirror,cup,plate,windshield|cracked has_crack|intact undamaged|a line runs right across {it};I dropped {it} and you can see it|not a scratch on {it};{it} survived the fall;{it} is in one piece
baby,twin,calf,foal|born delivered|unborn not_yet_born|{it} came into the world at dawn;{it} gave its first cry|{it} will come next month;we are still waiting for {it}
"""
OWNERS = "owner belongs_to whose kept_by"
WHERE = "town place where location seen_in"
ITEMS = "item thing_named what_it_is about_what"
PERSONS = "person_named who name about_whom named_person"
ABOUT = "Good news or bad:|News:|Update:|For your information:|Note:|Quick update:|Just so you know:|Listen:|Status:|From the diary:|Heard today:"
