"""Records of few values in short sentences, and requests that do not name their tool. The form is that of `wide_schemas`."""

# ruff: noqa: E501  (a record's sentences stand in one line)

RECORDS = """
add_person save_user new_member | n: name full_name person user_name who=p; a: age years age_in_years years_old=i1-99
> {n} is {a} years old.|{n}, {a}.|{a}-year-old {n} came in.|At the age of {a}, {n} started over.|{n} has just turned {a}.|We met {n} ({a}).|I am {n} and I am {a}.|{n} celebrates birthday number {a} today.
? {n} is {a} and wants to join us|could {n}, aged {a}, get a place on the list|there is a newcomer: {n}, {a} years old

set_home move_to update_residence | n: name person resident inhabitant=p; t: city town lives_in residence place=t
> {n} lives in {t}.|{n} comes from {t}.|{t} is where {n} has a flat.|Since last year {n} is at home in {t}.|{n} moved to {t}.
? {n} has a new flat in {t} now|from today you find {n} in {t}

set_job add_profession | n: name person employee worker=f; j: job profession occupation work role=baker,nurse,pilot,lawyer,carpenter,dentist,farmer,barber,clerk,chemist,tailor,judge; e: employer company workplace firm=g
> {n} works as a {j} at {e}.|{n} is a {j} at {e}.|As a {j}, {n} earns a living at {e}.|{e} has a {j} by the name of {n}.
? {e} just gave {n} a contract as a {j}|{n} starts as a {j} with {e}

contact save_contact add_contact | n: name person contact_name contact=p; e: email mail email_address e_mail=m
> You reach {n} at {e}.|{n}: {e}|Write to {n} under {e}.|{e} belongs to {n}.|The mail of {n} is {e}.
? I keep forgetting that {n} is at {e}|so that I can write to {n} later: {e}

save_phone add_number | n: name person owner contact=p; p: phone number phone_number telephone mobile=ph
> {n} has the number {p}.|Call {n} on {p}.|{p} is the phone of {n}.|The telephone of {n}: {p}.
? when I want to talk to {n} I dial {p}, keep that|{n} changed the number to {p}

set_price price_item | i: item product article thing goods=n; p: price cost costs amount=i1-900; c: currency money unit=euros,dollars,pounds,francs,yen,crowns
> The {i} costs {p} {c}.|{p} {c} for a {i}.|You pay {p} {c} for the {i}.|One {i} is sold at {p} {c}.|For a {i} they want {p} {c}.
? from now on nobody gets a {i} for less than {p} {c}|the tag on the {i} should say {p} {c}

order_item buy add_to_basket | i: item product article what=*; n: quantity count number amount how_many=i1-60
> {n} of the {i}, please.|I take {n} pieces of {i}.|We sold {i} {n} times.|{i}: {n} pieces.|The box has {n} times {i}.
? we are short of {i}, {n} would do|bring {n} {i} when you come|{n} {i} and I am happy

meet schedule_meeting create_event | w: with person attendee partner=p; d: day date when on=d; h: time hour at start=h
> {w} comes on {d} at {h}.|I see {w} on {d} at {h}.|On {d}, {h}, there is {w}.|The talk with {w} is on {d} at {h}.
? {w} has time for me on {d} at {h}|block {d}, {h}, because {w} drops in|keep {d} at {h} free for {w}

weather get_weather forecast | t: city town place location where=t; d: day date when for_day=w
> The forecast for {t} on {d}.|{d} in {t}: how is the sky?|{t}, {d}, weather wanted.
? do I need an umbrella in {t} on {d}|should I pack a coat for {t} on {d}|will it be nice outside in {t} on {d}|is it going to pour in {t} on {d}

route navigate find_route directions | a: from start origin departure=t; b: to destination goal end=t; m: mode by means transport=car,bus,train,bike,foot,ferry
> From {a} to {b} by {m}.|The way from {a} to {b}, by {m}.|{m}: {a} to {b}.
? I sit in {a} and have to be in {b}, by {m}|how do I get from {a} over to {b} by {m}|we leave {a} for {b}, going by {m}

call_taxi get_ride | a: pickup from start where=s; b: destination to drop_off=s; n: passengers people persons seats=i1-8
> A taxi for {n} from {a} to {b}.|{n} people go from {a} to {b}.|From {a} we are {n}, going to {b}.
? {n} of us stand at {a} and must get to {b}|my feet hurt, I am at {a} and want to go to {b}, {n} people

currency convert_money exchange | n: amount value sum money=i1-9000; a: from source currency have=euros,dollars,pounds,yen,francs,pesos,rubles; b: to target into want=crowns,rupees,zloty,lira,won,reals
> {n} {a} in {b}.|Change {n} {a} into {b}.|For {n} {a}, how many {b}?
? I have {n} {a} left and need {b}|what would {n} {a} be worth in {b}|how many {b} do I get for {n} {a}

define_word lookup_word dictionary | w: word term entry expression=n; l: language in tongue=English,French,Latin,German,Polish
> The word {w} in {l}.|{w} ({l}).|Look at {w}, {l}.
? I came across "{w}" in {l} and have no idea what it says|"{w}", in {l}, is new to me

send_mail write_email compose | r: recipient to receiver addressee=f; s: subject topic about title=g; u: urgent important high_priority=b urgent/not urgent
> A mail to {r} about {s}, {u}.|{r} gets a letter on {s}; it is {u}.|Subject {s}, for {r}, {u}.
? {r} should hear about {s}, it is {u}|let {r} know about {s}, {u}|tell {r} that {s} is on the table, {u}

send_message text_person sms | r: recipient to receiver contact=f; m: message text body content=I am late,dinner is ready,call me back,the train is full,happy birthday,see you at noon,I lost my keys,we won
> To {r}: {m}.|{r} gets the text "{m}".|"{m}" goes to {r}.
? {r} has to know: {m}|could you let {r} know "{m}"|drop {r} a line: {m}

set_volume change_volume | d: device speaker where output=radio,tv,headset,speaker,phone,doorbell; v: volume level loudness value=i0-100
> The {d} is at {v}.|Volume {v} on the {d}.|{d}: {v} percent.
? I can hardly hear the {d}, {v} would be right|the {d} hurts my ears, {v} is enough

open_window close_blinds move_shutter | r: room place where=kitchen,bath,office,bedroom,hall,attic,shop; p: percent position open level=i0-100
> The window in the {r} is {p} percent open.|{r}: {p} percent.|Shutters of the {r} at {p} percent.
? the sun blinds me in the {r}, {p} percent would do|some air in the {r}, please, {p} percent

lock_door secure | d: door entrance which=front door,back door,garage,cellar,gate,shed,balcony; l: locked closed is_locked=b locked/unlocked
> The {d} is {l}.|{l}: the {d}.|We left the {d} {l}.
? I am in bed and want the {d} {l}|nobody is home, so the {d} should be {l}

search find_files search_documents | q: query text search_term keywords=g; k: kind file_type type format=pdf,letter,photo,table,slides,video; y: year from_year since=i1990-2030
> {k} files about {q} from {y}.|In {y} there was a {k} on {q}.|{q} ({k}, {y}).
? where is that {k} on {q} from {y}|somewhere there must be a {k} about {q}, it was {y}|I cannot find my {k} of {y} about {q}

book_table reserve_table | n: guests people persons party_size seats=i1-20; p: restaurant place where=g; h: time hour at=h; d: day date on=w
> A table for {n} at {p}, {d}, {h}.|{p}, {d} at {h}, {n} persons.|On {d} we eat at {p}, {n} of us, at {h}.
? {n} hungry people will be at {p} on {d} at {h}|we want to eat at {p} on {d}, {h}, {n} of us

cancel cancel_order stop_booking | c: code order_number booking_id reference id=c; r: reason why cause=too late,wrong size,broken,no longer needed,double,too expensive
> Order {c} was cancelled: {r}.|{c} is off, {r}.|Because it is {r}, {c} is cancelled.
? I do not want {c} any more, {r}|forget about {c}, it is {r}|{c} is {r}, so no thanks

refund give_money_back | c: order order_id invoice number=c; a: amount sum euros value=i1-900; n: customer name client=p
> {n} gets {a} euros back for {c}.|{a} euros of {c} return to {n}.|For {c}, {n} receives {a} euros.
? {n} was charged {a} euros too much on {c}|the {a} euros for {c} belong to {n}

rate review add_review | p: product thing item what=n; s: stars rating points score=i1-5; b: recommended would_buy_again recommend=b would buy it again/would not buy it again
> {s} stars for the {p}, {b}.|The {p} gets {s} of 5; I {b}.|I give the {p} {s} stars and {b}.
? my {p} deserves {s} of five and I {b}|{s} stars, that is what I think of the {p}; I {b}

feel classify_mood sentiment | t: topic subject about what=n; m: sentiment mood feeling opinion=positive,negative,neutral,mixed
> The mood about the {t} is {m}.|People are {m} on the {t}.|A {m} view of the {t}.
? write down that folks are {m} about the {t}

planet add_planet | n: name planet body=g; m: moons number_of_moons moon_count=i0-80; r: rings has_rings ringed=b with rings/without rings; d: diameter width km=i300-140000
> {n} has {m} moons and is {d} km wide, {r}.|The planet {n}: {m} moons, {d} km, {r}.|{r}, {d} km across, {m} moons: {n}.
? we discovered {n}, {d} km wide, {m} moons, {r}

team add_player | n: player name athlete=p; t: team club side=g; s: shirt number jersey shirt_number=i1-99; g: goals scored goals_scored=i0-60
> {n} plays for {t} with number {s} and has {g} goals.|{t}: {n} ({s}), {g} goals.|Number {s} of {t} is {n}; {g} goals so far.
? {t} signed {n}, number {s}, {g} goals so far

drive read_tank fuel | c: car vehicle plate=c; l: liters fuel amount=i5-90; k: kilometers mileage km=i100-300000
> {l} liters for {c} at {k} km.|{c} has {k} km on it and took {l} liters.|At {k} km, {c} got {l} liters.
? I filled up {c}, {l} liters, {k} km on the clock

measure add_reading log_value | s: sensor meter device probe=c; v: value reading measured result=x0-900; u: unit in measure=volt,bar,lux,ohm,watt,pascal
> Sensor {s} shows {v} {u}.|{v} {u} at {s}.|{s}: {v} {u}.|The probe {s} measured {v} {u}.
? {s} says {v} {u} now|note that {s} went to {v} {u}

assign give_task hand_over | t: task job work todo=fix the roof,count the stock,paint the fence,check the brakes,clean the hall,write the report,test the pump; p: assignee person who responsible=p; d: deadline due until by=d
> {p} has to {t} until {d}.|"{t}" is the job of {p}, due {d}.|By {d}, {p} will {t}.
? somebody has to {t} until {d}, {p} should|I want {p} to {t} by {d}

dose give_medicine log_dose | m: medicine drug remedy=aspirin,iron,zinc,syrup,insulin,drops,vitamin C; n: dose amount milligrams mg=i1-900; t: times_a_day times frequency=i1-6; p: patient name person=p
> {p} takes {n} mg of {m} {t} times a day.|{m} for {p}: {n} mg, {t} times a day.|{t} times a day {p} gets {n} mg {m}.
? {p} needs {n} mg of {m} {t} times a day

stop_timer pause_device switch_off | d: device machine what appliance=oven,washer,fan,heater,dryer,lamp,pump; m: minutes after in_minutes delay=i1-120
> The {d} goes off in {m} minutes.|{m} minutes more for the {d}.|{d} off after {m} minutes.
? I do not want the {d} running longer than {m} minutes|the {d} has done enough in {m} minutes

school add_grade | s: student pupil name child=p; c: subject course class=maths,history,music,biology,art,French,physics; g: grade mark points score=i1-100; p: passed has_passed=b passed/failed
> {s} got {g} points in {c} and {p}.|In {c}, {s} has {g} points: {p}.|{s}, {c}, {g}, {p}.
? {s} wrote {g} points in {c} and {p}

book add_book | t: title book name=g; a: author writer written_by=p; y: year published publication_year=y; p: pages page_count length=i20-1400
> {a} wrote "{t}" in {y}; it has {p} pages.|"{t}" by {a}, {y}, {p} pages.|In {y} came "{t}" ({p} pages) by {a}.
? "{t}" by {a} from {y} with {p} pages belongs on my shelf

city add_city | n: name city town=t; p: population inhabitants people=i500-9000000; c: country nation state=Peru,Kenya,Norway,Chile,Egypt,Spain,India,Ghana; k: capital is_capital=b the capital/not the capital
> {n} in {c} has {p} inhabitants and is {k}.|{p} people live in {n}, {c}; it is {k}.|{n} ({c}): {p} people, {k}.
? {n}, {c}, {p} people, {k}: on the map with it

error report_error log_error | s: service system program component=login,billing,search,mail,backup,cache,proxy; c: code status error_code=i100-599; h: time at when=h; f: fixed resolved solved=b fixed/not fixed
> {s} failed with {c} at {h}, {f}.|At {h}: error {c} in {s}, {f}.|{c} from {s} ({h}), {f}.
? {s} gave me a {c} at {h}, {f}
"""
