"""The command line as a file, for those who start programs and not commands: spark-submit, the operator.

spark-submit --master spark://host:7077 run.py run --config run.toml
"""

from watersmeet.cli.commands import main

main()
