"""Arrays and maps as a whole: functions of their elements, sets of them, and what is made of several."""
