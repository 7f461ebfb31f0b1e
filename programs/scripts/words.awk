# Concordance of a corpus with associative arrays: counts, pairs of neighbours, a string of line numbers per word.
BEGIN { FS = "\t"; PROCINFO["sorted_in"] = "@ind_str_asc" }

{
    n = split(tolower($2), word, /[^a-z0-9]+/)
    previous = ""
    for (i = 1; i <= n; i++) {
        w = word[i]
        if (w == "") continue
        count[w]++
        if (previous != "") pair[previous, w]++
        if (length(w) > 6) lines[w] = lines[w] " " NR
        previous = w
    }
    text = $2
    gsub(/[aeiou]+/, "<&>", text)
    kept[NR % 2000] = toupper(substr(text, 1, 200))
    total += length(text)
}

END {
    for (w in count) {
        rank[sprintf("%09d %s", 999999999 - count[w], w)] = w
        characters += length(w) * count[w]
    }
    for (key in rank) {
        if (++shown > 40) break
        print rank[key], count[rank[key]]
    }
    for (w in lines) places = (places * 31 + length(lines[w])) % 1000003
    for (p in pair) if (pair[p] > 1) { split(p, both, SUBSEP); repeated[both[1]] = repeated[both[1]] "," both[2] }
    for (w in repeated) sum = (sum * 31 + length(repeated[w])) % 1000003
    for (k in kept) sum = (sum * 31 + length(kept[k])) % 1000003
    print total, characters, length(pair), places, sum
}
