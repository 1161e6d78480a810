"""keras.applications: models of pictures by Keras' names, with the weights that Keras' authors published.

    model = keras.applications.MobileNetV2(include_top=False, pooling="avg")  # weights="imagenet" are downloaded once
    model.trainable = False

The modules have Keras' names, too: `from pyapp.keras.applications.resnet50 import ResNet50, preprocess_input`.
"""

from . import convnext as convnext
from . import densenet as densenet
from . import efficientnet as efficientnet
from . import efficientnet_v2 as efficientnet_v2
from . import imagenet_utils as imagenet_utils
from . import inception_resnet_v2 as inception_resnet_v2
from . import inception_v3 as inception_v3
from . import mobilenet as mobilenet
from . import mobilenet_v2 as mobilenet_v2
from . import mobilenet_v3 as mobilenet_v3
from . import nasnet as nasnet
from . import resnet as resnet
from . import resnet50 as resnet50
from . import resnet_v2 as resnet_v2
from . import vgg16 as vgg16
from . import vgg19 as vgg19
from . import xception as xception
from .convnext import ConvNeXtBase as ConvNeXtBase
from .convnext import ConvNeXtLarge as ConvNeXtLarge
from .convnext import ConvNeXtSmall as ConvNeXtSmall
from .convnext import ConvNeXtTiny as ConvNeXtTiny
from .convnext import ConvNeXtXLarge as ConvNeXtXLarge
from .densenet import DenseNet121 as DenseNet121
from .densenet import DenseNet169 as DenseNet169
from .densenet import DenseNet201 as DenseNet201
from .efficientnet import EfficientNetB0 as EfficientNetB0
from .efficientnet import EfficientNetB1 as EfficientNetB1
from .efficientnet import EfficientNetB2 as EfficientNetB2
from .efficientnet import EfficientNetB3 as EfficientNetB3
from .efficientnet import EfficientNetB4 as EfficientNetB4
from .efficientnet import EfficientNetB5 as EfficientNetB5
from .efficientnet import EfficientNetB6 as EfficientNetB6
from .efficientnet import EfficientNetB7 as EfficientNetB7
from .efficientnet_v2 import EfficientNetV2B0 as EfficientNetV2B0
from .efficientnet_v2 import EfficientNetV2B1 as EfficientNetV2B1
from .efficientnet_v2 import EfficientNetV2B2 as EfficientNetV2B2
from .efficientnet_v2 import EfficientNetV2B3 as EfficientNetV2B3
from .efficientnet_v2 import EfficientNetV2L as EfficientNetV2L
from .efficientnet_v2 import EfficientNetV2M as EfficientNetV2M
from .efficientnet_v2 import EfficientNetV2S as EfficientNetV2S
from .inception_resnet_v2 import InceptionResNetV2 as InceptionResNetV2
from .inception_v3 import InceptionV3 as InceptionV3
from .mobilenet import MobileNet as MobileNet
from .mobilenet_v2 import MobileNetV2 as MobileNetV2
from .mobilenet_v3 import MobileNetV3Large as MobileNetV3Large
from .mobilenet_v3 import MobileNetV3Small as MobileNetV3Small
from .nasnet import NASNetLarge as NASNetLarge
from .nasnet import NASNetMobile as NASNetMobile
from .resnet import ResNet50 as ResNet50
from .resnet import ResNet101 as ResNet101
from .resnet import ResNet152 as ResNet152
from .resnet_v2 import ResNet50V2 as ResNet50V2
from .resnet_v2 import ResNet101V2 as ResNet101V2
from .resnet_v2 import ResNet152V2 as ResNet152V2
from .vgg16 import VGG16 as VGG16
from .vgg19 import VGG19 as VGG19
from .xception import Xception as Xception
