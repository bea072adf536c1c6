"""Our own tool schemas for the intents of NLU-Evaluation-Data and SNIPS: slot → parameter."""

# ruff: noqa: E501 (a table reads better with one intent a line)

from __future__ import annotations

_DATE = "date: Day"
_TIME = "time: Time"
_ROOM = "room: Room of the house"

NLU_TOOLS: dict[str, tuple[str, str, dict[str, str]]] = {
    "alarm_set": ("set_alarm", "Set an alarm.", {"time": _TIME, "date": _DATE, "timeofday": "part_of_day: Morning, evening, …", "event_name": "label: What it is for"}),
    "alarm_remove": ("remove_alarm", "Delete an alarm.", {"time": _TIME, "date": _DATE, "timeofday": "part_of_day: Morning, evening, …"}),
    "alarm_query": ("list_alarms", "Show the alarms that are set.", {"date": _DATE, "time": _TIME, "timeofday": "part_of_day: Part of the day"}),
    "weather_query": ("weather_lookup", "Look up the weather.", {"date": _DATE, "place_name": "place: City or region", "weather_descriptor": "condition: Kind of weather asked about", "timeofday": "part_of_day: Part of the day"}),
    "play_radio": ("radio.play", "Play a radio station.", {"radio_name": "station: Name of the station", "app_name": "app: App to use"}),
    "play_music": ("play_song", "Play music.", {"artist_name": "artist: Singer or band", "song_name": "song: Title of the song", "music_genre": "genre: Kind of music", "playlist_name": "playlist: Name of a playlist"}),
    "play_audiobook": ("audiobook.play", "Start or resume an audiobook.", {"audiobook_name": "title: Title of the book", "audiobook_author": "author: Who wrote it"}),
    "play_podcasts": ("playPodcast", "Play a podcast.", {"podcast_name": "podcast: Name of the podcast", "podcast_descriptor": "which: Episode or kind"}),
    "play_game": ("start_game", "Start a game.", {"game_name": "game: Name of the game"}),
    "transport_ticket": ("book_ticket", "Book a ticket for a train, bus or plane.", {"transport_type": "vehicle: Train, bus, …", "place_name": "destination: Where to", "date": _DATE, "time": _TIME}),
    "transport_taxi": ("call_taxi", "Order a taxi.", {"transport_agency": "company: Taxi company", "place_name": "destination: Where to", "time": _TIME, "date": _DATE, "transport_type": "vehicle: Kind of vehicle"}),
    "transport_traffic": ("traffic_report", "Traffic on the way to a place.", {"place_name": "place: Place or road", "date": _DATE, "timeofday": "part_of_day: Part of the day"}),
    "calendar_set": ("calendar.add_event", "Put an event in the calendar.", {"event_name": "event: What happens", "date": _DATE, "time": _TIME, "person": "with_person: Who takes part", "place_name": "place: Where"}),
    "calendar_query": ("calendar.read", "Read events from the calendar.", {"event_name": "event: Event asked about", "date": _DATE, "time": _TIME, "person": "person: Who takes part"}),
    "calendar_remove": ("calendar.delete_event", "Delete an event from the calendar.", {"event_name": "event: Event to delete", "date": _DATE, "time": _TIME, "person": "person: Who takes part"}),
    "recommendation_locations": ("find_places", "Find shops, restaurants and sights.", {"business_type": "kind: Kind of place", "place_name": "near: Where", "food_type": "food: Food or drink wanted"}),
    "recommendation_events": ("find_events", "Find events.", {"place_name": "place: Where", "date": _DATE, "event_name": "kind: Kind of event"}),
    "recommendation_movies": ("movie_finder", "Find films and cinemas.", {"movie_name": "title: Title of the film", "movie_type": "genre: Kind of film", "place_name": "place: Where", "date": _DATE}),
    "cooking_recipe": ("recipe_lookup", "Find a recipe.", {"food_type": "dish: What to cook", "ingredient": "ingredient: Ingredient to use", "cooking_type": "method: Way of cooking"}),
    "iot_hue_lightchange": ("lights.set_colour", "Change the colour of the lights.", {"color_type": "colour: New colour", "house_place": _ROOM}),
    "iot_hue_lightoff": ("lights.off", "Switch lights off.", {"house_place": _ROOM}),
    "iot_hue_lighton": ("lights.on", "Switch lights on.", {"house_place": _ROOM}),
    "iot_hue_lightdim": ("dim_lights", "Make the lights darker.", {"house_place": _ROOM, "change_amount": "amount: How much"}),
    "iot_hue_lightup": ("brighten_lights", "Make the lights brighter.", {"house_place": _ROOM, "change_amount": "amount: How much"}),
    "iot_coffee": ("make_coffee", "Start the coffee machine.", {"coffee_type": "drink: Kind of coffee", "device_type": "machine: Machine to use", "time": _TIME}),
    "iot_cleaning": ("start_vacuum", "Start the robot vacuum cleaner.", {"device_type": "device: Which device", "house_place": _ROOM, "time": _TIME}),
    "iot_wemo_off": ("plug_off", "Switch a smart plug off.", {"device_type": "device: What to switch", "house_place": _ROOM}),
    "iot_wemo_on": ("plug_on", "Switch a smart plug on.", {"device_type": "device: What to switch", "house_place": _ROOM}),
    "audio_volume_up": ("volume_up", "Raise the volume.", {"change_amount": "amount: How much", "device_type": "device: Speaker"}),
    "audio_volume_down": ("volume_down", "Lower the volume.", {"change_amount": "amount: How much", "device_type": "device: Speaker"}),
    "audio_volume_mute": ("mute", "Mute the sound.", {"time": "how_long: For how long", "device_type": "device: Speaker"}),
    "takeaway_order": ("order_takeaway", "Order food from a restaurant.", {"food_type": "food: What to eat", "business_name": "restaurant: Where from", "order_type": "order_type: Delivery or takeaway"}),
    "takeaway_query": ("takeaway_info", "Ask whether a restaurant delivers.", {"business_name": "restaurant: Restaurant", "order_type": "order_type: Delivery or takeaway", "food_type": "food: Kind of food", "business_type": "kind: Kind of place"}),
    "qa_stock": ("share_price", "Look up a share price.", {"business_name": "company: Company", "date": _DATE}),
    "qa_definition": ("define_word", "Look up what a word means.", {"definition_word": "word: Word or phrase"}),
    "news_query": ("news_headlines", "Read the news.", {"news_topic": "topic: What about", "media_type": "outlet: Newspaper or channel", "place_name": "place: From where", "date": _DATE}),
    "email_querycontact": ("contact_lookup", "Look up a detail of a contact.", {"person": "person: Who", "personal_info": "detail: Which detail", "relation": "relation: Mother, boss, …"}),
    "email_query": ("check_email", "Look for e-mails.", {"person": "sender: Who wrote", "email_folder": "folder: Which folder", "relation": "relation: Mother, boss, …", "date": _DATE}),
    "datetime_query": ("clock", "Tell the time or date.", {"place_name": "place: Where", "date": _DATE, "time_zone": "time_zone: Time zone", "event_name": "event: Holiday or event"}),
    "general_joke": ("tell_joke", "Tell a joke.", {"joke_type": "kind: Kind of joke"}),
    "lists_query": ("read_list", "Read out a list.", {"list_name": "list: Name of the list", "date": _DATE}),
    "lists_remove": ("delete_list", "Delete a list or something on it.", {"list_name": "list: Name of the list"}),
    "music_settings": ("player_mode", "Shuffle, repeat and other modes of the player.", {"player_setting": "mode: Which mode"}),
    "social_query": ("social_feed", "See what happens on social media.", {"media_type": "network: Which network", "person": "person: Whose posts", "date": _DATE}),
}  # fmt: skip

SNIPS_TOOLS: dict[str, tuple[str, str, dict[str, str]]] = {
    "GetWeather": ("weather_at", "What the weather is like somewhere, now or later.", {"timeRange": "when: Time or day", "city": "city: City", "country": "country: Country", "state": "state: State", "condition_temperature": "temperature: Cold, hot, …", "condition_description": "condition: Rain, snow, …", "geographic_poi": "landmark: Park or other landmark", "current_location": "here: Words for the present place", "spatial_relation": "relation: Near, around, …"}),
    "PlayMusic": ("music.play", "Play music by artist, title, year, …", {"artist": "artist: Singer or band", "music_item": "item: Song, album, …", "service": "service: Streaming service", "year": "year: Year or decade", "sort": "sort: Best, latest, …", "track": "track: Title of the song", "album": "album: Title of the album", "playlist": "playlist: Name of the playlist", "genre": "genre: Genre"}),
    "BookRestaurant": ("book_table", "Book a table at a restaurant.", {"restaurant_type": "kind: Restaurant, bar, …", "party_size_number": "people: Number of people", "timeRange": "when: Time or day", "state": "state: State", "city": "city: City", "country": "country: Country", "restaurant_name": "name: Name of the restaurant", "spatial_relation": "relation: Near, close to, …", "party_size_description": "party: Who comes", "served_dish": "dish: Dish served", "cuisine": "cuisine: Cuisine", "sort": "sort: Best, top, …", "facility": "facility: Parking, pool, …", "poi": "landmark: Landmark nearby"}),
    "SearchScreeningEvent": ("find_screenings", "Find film showings.", {"movie_name": "film: Title", "object_type": "what: Schedule, times, …", "movie_type": "genre: Kind of film", "spatial_relation": "relation: Nearest, closest, …", "location_name": "cinema: Cinema", "object_location_type": "venue: Kind of venue", "timeRange": "when: Time or day"}),
    "RateBook": ("rate_book", "Give a book a rating.", {"rating_value": "stars: Points given", "rating_unit": "unit: Stars or points", "best_rating": "out_of: Highest rating", "object_name": "title: Title", "object_select": "which: This, last, …", "object_type": "kind: Novel, textbook, …", "object_part_of_series_type": "series: Series or saga"}),
    "SearchCreativeWork": ("find_work", "Find a book, film, game, song or show by title.", {"object_name": "title: Title", "object_type": "kind: Kind of work"}),
    "AddToPlaylist": ("playlist.add", "Add a song or artist to a playlist.", {"playlist": "playlist: Name of the playlist", "playlist_owner": "owner: Whose playlist", "music_item": "item: Song, album, track, …", "artist": "artist: Singer or band", "entity_name": "title: Title of the song or album"}),
}  # fmt: skip
