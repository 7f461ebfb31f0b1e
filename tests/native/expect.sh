# SPDX-License-Identifier: Apache-2.0
# expect.sh STATUS right|wrong LIBRARY PROGRAM: PROGRAM under LIBRARY ends with STATUS (124: not at all) and so answers.
set -u
right=$("$4" 2000 0)
answer=$(LD_PRELOAD=$3 timeout 2 "$4" 2000 0 2>/dev/null)
status=$?
if [ "$answer" = "$right" ]; then verdict=right; else verdict=wrong; fi
echo "exit $status, answer $verdict; expected exit $1, answer $2"
[ "$status $verdict" = "$1 $2" ]
