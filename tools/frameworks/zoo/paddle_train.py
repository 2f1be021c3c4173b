"""PaddlePaddle: a small convolutional network trained eagerly, and a compiled function that infers."""

import paddle
from paddle import nn

paddle.seed(1)
paddle.set_device("gpu:0")


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2D(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2D(2), nn.Flatten(),
                                    nn.Linear(8 * 8 * 8, 10))

    def forward(self, x):
        return self.layers(x)


net = Net()
optimizer = paddle.optimizer.Adam(parameters=net.parameters())
for _ in range(5):
    loss = nn.functional.mse_loss(net(paddle.ones([4, 3, 16, 16])), paddle.zeros([4, 10]))
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
paddle.device.synchronize()
print("trained", loss.shape)

compiled = paddle.jit.to_static(net, input_spec=[paddle.static.InputSpec([4, 3, 16, 16])])
with paddle.no_grad():
    for _ in range(3):
        out = compiled(paddle.ones([4, 3, 16, 16]))
print("compiled", out.numpy().shape)
