# Draws one metric of an ACDC experiment exported with: heapyard export EXPERIMENT --dat FOLDER
#   gnuplot -e "data='FOLDER/ACDC/NAME'; metric='alloc'" studies/plots/acdc.gp > alloc.svg
# Metrics: access, alloc, free, combined (malloc and free) and memcons. Bars are standard deviations of the runs.
if (!exists("data")) { print "give the folder: gnuplot -e \"data='FOLDER/ACDC/NAME'\" acdc.gp"; exit status 2 }
if (!exists("metric")) metric = 'alloc'
names = system("cd '" . data . "' && ls *-" . metric . ".dat | sed 's/-" . metric . "[.]dat$//'")
if (words(names) == 0) { print "no *-" . metric . ".dat in " . data; exit status 2 }
heading = system("grep -h '^#x' '" . data . "'/*-" . metric . ".dat | head -n 1")
set terminal svg size 800,480 font "sans,12" background "white"
set key outside right
set grid ytics
set yrange [0:*]
set xlabel system("printf '%s' '" . heading . "' | sed 's/^#x(\\([^)]*\\)).*/\\1/'")
set ylabel metric . " " . system("printf '%s' '" . heading . "' | sed 's/.*stddev[^i]*//; s/ of a.*//; s/ (.*//'") . " (lower is better)"
plot for [i=1:words(names)] data . "/" . word(names, i) . "-" . metric . ".dat" using 1:2:3 \
  with yerrorlines linecolor i pointtype i title word(names, i)
