# overhead.gp - `cutin-lab overhead`: a panel for each number of threads.
width = 1000
height = 480
load folder.'/common.gp'

array ROW[3] = ['launch', 'event_record', 'memcpy_async'] # the figures, in kinds.c's order
array COLUMN[3] = ['pass_through', 'inline', 'buffered']
member(name) = sum [i=1:|MEMBER|] (MEMBER[i] eq name ? i : 0)
added(run, call, mode) = member(COLUMN[mode]) ? figure(run, member(COLUMN[mode]), call) : NaN

# All panels have one scale.
low = 0
high = 0
do for [run=1:|GROUP|] { do for [call=1:3] { do for [mode=1:3] {
    low = smaller(low, added(run, call, mode))
    high = larger(high, added(run, call, mode))
}}}

set multiplot layout 1,|GROUP| margins 0.08,0.98,0.18,0.76 spacing 0.06,0.1 title \
    'What cutin adds to a driver call, median in nanoseconds; below 0: cheaper than the bare call' \
    ."\n".origin
set key outside bottom center horizontal Left reverse samplen 1.5
set xzeroaxis lt 1 lc rgb '#333333'
set ylabel 'added ns per call'
set yrange [low * 1.15:high * 1.2 + 1]
bar(row, column) = added(run, row, column)
bar_format = '%.0f'
least = -1e300
do for [run=1:|GROUP|] {
    set title GROUP[run].' thread'.(GROUP[run] eq '1' ? '' : 's, a stream each')
    load folder.'/bars.gp'
    set ylabel ''
}
unset multiplot
