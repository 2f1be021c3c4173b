# disb.gp - `cutin-lab disb`: two panels of bars over all workloads, and below them the distributions of
# each workload.
panel = 270
cdf = 260
cdf_columns = 3
top = 50
width = 1200
height = top + 2 * panel + 25 + (|GROUP| + cdf_columns - 1) / cdf_columns * cdf
load folder.'/common.gp'

set multiplot title sprintf('%s, %.0f s per mode, models at %g x the published speed', \
    origin, number('config_seconds'), number('config_speed'))

# ---- bars ----
array ROW[|GROUP|]
array COLUMN[|MEMBER|]
do for [i=1:|GROUP|] { ROW[i] = GROUP[i] }
do for [i=1:|MEMBER|] { COLUMN[i] = MEMBER[i] }
array TITLE[2] = ['Real-time p99 latency, times that of rt-only (logarithmic, 1 is best)', \
    'Requests per second of all clients, times those of rt-only (logarithmic, more is better)']
bar(row, column) = figure(row, column, which)
bar_format = '%.3g'
least = 0.5

set logscale y
set key at screen 0.5, 1 - 50.0 / height center horizontal Left reverse samplen 1.5
set lmargin at screen 0.06
set rmargin at screen 0.98
do for [which=1:2] {
    from = top + 60 + (which - 1) * (panel - 10)
    set tmargin at screen 1 - 1.0 * from / height
    set bmargin at screen 1 - 1.0 * (from + panel - 80) / height
    most = 1
    do for [row=1:|GROUP|] { do for [column=1:|MEMBER|] {
        most = larger(most, bar(row, column))
    }}
    set title TITLE[which]
    set yrange [0.5:4 * most]
    load folder.'/bars.gp'
    unset key
}

# ---- distributions ----
unset logscale
set logscale x
set xrange [*:*]
set yrange [0:100]
set ytics 25
set xtics scale 1 autofreq
set xtics ('0.1' 1e2, '0.2' 2e2, '0.5' 5e2, '1' 1e3, '2' 2e3, '5' 5e3, '10' 1e4, '20' 2e4, \
    '50' 5e4, '100' 1e5, '200' 2e5, '' 5e5, '1000' 1e6, '' 2e6, '' 5e6, '10000' 1e7) font ',9'
set grid xtics
do for [g=1:|GROUP|] {
    across = (g - 1) % cdf_columns
    from = top + 2 * panel + 55 + (g - 1) / cdf_columns * cdf
    set lmargin at screen 0.06 + 0.32 * across
    set rmargin at screen 0.06 + 0.32 * across + 0.28
    set tmargin at screen 1 - 1.0 * from / height
    set bmargin at screen 1 - 1.0 * (from + cdf - 90) / height
    set title GROUP[g].': real-time latency, ms (log)'
    set ylabel across ? '' : 'percent of requests'
    drawn = ''
    do for [i=1:|MEMBER|] { if (points(g, i)) { drawn = drawn.' '.i } }
    if (drawn ne '') {
        plot for [m in drawn] $cdf index block(g, m) using 1:2 \
            with lines lw (dash(MEMBER[m+0]) == 1 ? 2.5 : 1.8) dt dash(MEMBER[m+0]) \
            lc rgb colour(MEMBER[m+0]) notitle
    }
}
unset multiplot
