# Per town: how many events, bytes moved, the tags used most and the longest texts; then every event reshaped.
def most(n): group_by(.) | map({word: .[0], times: length}) | sort_by([-.times, .word]) | .[0:n];

(group_by(.user.town)
 | map({
     town: .[0].user.town,
     events: length,
     failed: map(select(.ok | not)) | length,
     bytes: map(.steps | map(.bytes) | add) | add,
     tags: (map(.tags[]) | most(3)),
     longest: (map(.steps[].text) | sort_by([-length, .]) | .[0])
   })
 | sort_by([-.bytes, .town])[]),
(map(.steps |= (sort_by(.at) | .[0].text |= (split(" ") | map(.[0:8]) | join("-")))
     | . + {summary: "\(.user.name) (\(.user.age)) in \(.user.town): \(.steps | length) steps"})
 | map(select(.tags | length > 2))
 | .[] | [.id, .summary, (.tags | join("+")), (.steps | map(.bytes) | max)])
