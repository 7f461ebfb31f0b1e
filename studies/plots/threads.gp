# Draws an experiment of threadtest, shbench, larson or false sharing exported with: heapyard export EXPERIMENT --dat FOLDER
#   gnuplot -e "data='FOLDER/NAME'; memory=1" studies/plots/threads.gp > memory.svg
# Without memory=1: the time in seconds (of larson operations per second). Bars are standard deviations.
if (!exists("data")) { print "give the folder: gnuplot -e \"data='FOLDER/NAME'\" threads.gp"; exit status 2 }
if (!exists("memory")) memory = 0
set terminal svg size 800,480 font "sans,12" background "white"
set datafile separator ","
set key outside right
set grid ytics
set yrange [0:*]
set xlabel "threads"
what = system("sed -n 's/^# threads,\\([a-z]*\\),.*/\\1/p' '" . data . "'/glibc.dat")
set ylabel (memory ? "resident kilobytes (lower is better)" : what eq 'ops' ? "operations per second (higher is better)" : "seconds (lower is better)")
names = system("cd '" . data . "' && ls *.dat | grep -v -e '-raw[.]dat$' | sed 's/[.]dat$//'")
plot for [name in names] data . "/" . name . ".dat" using 1:(memory ? $4 : $2):(memory ? $5 : $3) with yerrorlines title name
