module cairn.test/spark-operator

go 1.24.10

tool github.com/kubeflow/spark-operator/v2/cmd/operator

require github.com/kubeflow/spark-operator/v2 v2.5.2 // only its definitions: its program needs a Spark to run spark-submit
