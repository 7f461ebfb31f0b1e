# Draws one metric of an ACDC experiment exported with: heapyard export EXPERIMENT --dat FOLDER
#   gnuplot -e "data='FOLDER/ACDC/NAME'; metric='alloc'" studies/plots/acdc.gp > alloc.svg
# Metrics: access, alloc, free, combined (cycles of the processor's counter) and memcons (kilobytes).
if (!exists("data")) { print "give the folder: gnuplot -e \"data='FOLDER/ACDC/NAME'\" acdc.gp"; exit status 2 }
if (!exists("metric")) metric = 'alloc'
set terminal svg size 800,480 font "sans,12" background "white"
set key outside right
set grid ytics
set yrange [0:*]
set xlabel system("head -n 3 '" . data . "'/glibc-" . metric . ".dat | sed -n 's/^#x(\\([^)]*\\)).*/\\1/p'")
set ylabel (metric eq 'memcons' ? "kilobytes (lower is better)" : "cycles (lower is better)")
names = system("cd '" . data . "' && ls *-" . metric . ".dat | sed 's/-" . metric . "[.]dat$//'")
# Mean and its 95 % interval would need the quantile of t for the number of runs: the bars are standard deviations.
plot for [name in names] data . "/" . name . "-" . metric . ".dat" using 1:2:3 with yerrorlines title name
