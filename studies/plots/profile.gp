# Draws memory over time of a profile's largest call chains (BFM's report, Figure 14: the two of netbuild), exported with
#   heapyard profile --mode pages --allocator bfm -- netbuild && heapyard profile export csv -o netbuild.csv
#   gnuplot -e "data='netbuild.csv'; chains=2" studies/plots/profile.gp > netbuild.svg
if (!exists("data")) { print "give the file: gnuplot -e \"data='NAME.csv'\" profile.gp"; exit status 2 }
if (!exists("chains")) chains = 5
set terminal svg size 900,480 font "sans,12" background "white"
set datafile separator ","
set key outside below maxrows 8 noenhanced font ",9"
set grid ytics
set yrange [0:*]
set xlabel "seconds"
set ylabel "MiB"
stats data every ::1 using 1 nooutput
columns = STATS_columns < 3 + chains ? STATS_columns : 3 + chains
plot for [i=4:columns] data using 1:(column(i) / 1048576) with lines linewidth 2 title columnhead(i), \
  data using 1:(column(2) / 1048576) with lines dashtype 2 linecolor "gray40" title columnhead(2)
