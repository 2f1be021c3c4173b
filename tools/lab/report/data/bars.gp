# bars.gp - groups of bars: a group for each of ROW[], a bar for each of COLUMN[]. The caller has
# set the axes, bar(row, column), NaN where there is none, and the bar_format of the figure above it.
# What lies below least still shows as a line on the axis.
bar_at(row, column) = row - 1 + (column - 0.5) * 0.84 / |COLUMN| - 0.42

drawn = ''
set print $bars
do for [column=1:|COLUMN|] {
    if (sum [row=1:|ROW|] known(bar(row, column))) {
        drawn = drawn.' '.column
        do for [row=1:|ROW|] {
            if (known(bar(row, column))) {
                print bar_at(row, column), larger(least, bar(row, column)), bar(row, column)
            }
        }
        print ''
        print ''
    }
}
set print

set xrange [-0.6:|ROW| - 0.4]
set xtics scale 0 (ROW[1] 0)
do for [row=2:|ROW|] { set xtics add (ROW[row] row - 1) }
if (drawn ne '') {
    plot for [k=1:words(drawn)] $bars index k-1 using 1:2:(0.8 / |COLUMN|) \
            with boxes fill solid 0.85 border lc rgb '#222222' lw 0.7 \
            lc rgb colour(COLUMN[word(drawn, k)+0]) title COLUMN[word(drawn, k)+0], \
        for [k=1:words(drawn)] $bars \
            index k-1 using 1:(column(2) > 0 ? column(2) : 0):(sprintf(bar_format, column(3))) \
            with labels rotate by 90 left offset 0,0.3 font ',9' notitle
}
