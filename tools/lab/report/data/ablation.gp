# ablation.gp - `cutin-lab ablation`: variants from top to bottom, p50 and p99 as two bars in
# the left half, throughput in the right.
width = 1000
height = 190 + 34 * (|MEMBER| < 64 ? |MEMBER| : 64)
load folder.'/common.gp'

most = 0
do for [i=1:|MEMBER|] { do for [k=1:2] { most = larger(most, figure(1, i, k)) } }
label(i) = sprintf('%s, %.0f us', MEMBER[i], figure(1, i, 4))

set multiplot title 'What each part of cutin is good for: real-time latency added, and what best \
effort keeps'."\n".origin
set yrange [|MEMBER| - 0.4:-0.6]
set ytics scale 0 (label(1) 0)
do for [i=2:|MEMBER|] { set ytics add (label(i) i - 1) }
unset grid
set grid xtics lt 1 lc rgb '#d0d0d0' lw 0.6
set bmargin at screen 70.0 / height
set tmargin at screen 1 - 96.0 / height
set lmargin at screen 0.26
set rmargin at screen 0.66
set xlabel 'added latency, microseconds'
set xrange [0:most * 1.15 + 1]
set key at screen 0.5, 1 - 66.0 / height center horizontal Left reverse samplen 1.5

# Lying bars; less than nothing is drawn as nothing. Column 1 of $figures counts percentiles.
shown(x) = x > 0 ? x : 0
plot $figures using (0):($0-0.18):(0):(shown($2)):($0-0.34):($0-0.02) \
        with boxxyerror fs solid 0.85 lc rgb '#0072b2' title 'p50', \
    '' using (shown($2)):($0-0.18):(sprintf(' %.0f', $2)) with labels left font ',9' notitle, \
    '' using (0):($0+0.18):(0):(shown($3)):($0+0.02):($0+0.34) \
        with boxxyerror fs solid 0.85 lc rgb '#d55e00' title 'p99', \
    '' using (shown($3)):($0+0.18):(sprintf(' %.0f', $3)) with labels left font ',9' notitle

set lmargin at screen 0.70
set rmargin at screen 0.97
set ytics ('' 0)
set xlabel 'best-effort throughput, share of native'
set xrange [0:1.25]
set xtics 0.2
unset key
plot $figures using (0):($0+0):(0):(shown($4)):($0-0.3):($0+0.3) \
        with boxxyerror fs solid 0.85 lc rgb '#009e73' title '', \
    '' using (shown($4)):($0+0):(sprintf(' %.2f', $4)) with labels left font ',9' notitle
unset multiplot
