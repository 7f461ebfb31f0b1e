# Draws an experiment of threadtest, shbench, larson or false sharing exported with: heapyard export EXPERIMENT --dat FOLDER
#   gnuplot -e "data='FOLDER/NAME'; memory=1" studies/plots/threads.gp > memory.svg
# Without memory=1: the time in seconds (of larson operations per second). Bars are standard deviations of the runs.
if (!exists("data")) { print "give the folder: gnuplot -e \"data='FOLDER/NAME'\" threads.gp"; exit status 2 }
if (!exists("memory")) memory = 0
names = system("cd '" . data . "' && ls *.dat | grep -v -e '-raw[.]dat$' | sed 's/[.]dat$//'")
if (words(names) == 0) { print "no *.dat in " . data; exit status 2 }
heading = system("cat '" . data . "'/*.dat | grep '^# .*,sd,rss_kb' | head -n 1")
what = system("printf '%s' '" . heading . "' | sed 's/.* in //'")
set terminal svg size 800,480 font "sans,12" background "white"
set datafile separator ","
set key outside right
set grid ytics
set yrange [0:*]
set xlabel system("printf '%s' '" . heading . "' | sed 's/^# \\([^,]*\\),.*/\\1/'")
set ylabel (memory ? "resident kilobytes (lower is better)" : what . (what eq 'seconds' ? " (lower is better)" : " (higher is better)"))
plot for [i=1:words(names)] data . "/" . word(names, i) . ".dat" using 1:(memory ? $4 : $2):(memory ? $5 : $3) \
  with yerrorlines linecolor i pointtype i title word(names, i)
