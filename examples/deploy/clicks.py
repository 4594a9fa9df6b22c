"""The topology that the deployments of this folder run: clicks of each user."""

import watersmeet as wm

builder = wm.StreamsBuilder("clicks")
clicks = builder.stream("clicks", key="string", value="string")
clicks.group_by_key().count(store="clicks-by-user").to("clicks-by-user")
topology = builder.build()
